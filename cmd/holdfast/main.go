// Command holdfast runs commands under a distributed lock on Redis, and shows
// in a few seconds what such a lock is for.
//
//	holdfast run --redis redis://localhost:6379 nightly-report -- ./report.sh
//	holdfast demo
//
// "holdfast help run" and "holdfast help demo" tell the rest.
package main

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
