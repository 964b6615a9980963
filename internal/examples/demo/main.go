// Demo runs two replicas of the order service (package shop) on one lock store,
// lets a payment over HTTP and a shipment over gRPC meet, and prints the traces:
//
//	go run ./demo
//	go run ./demo -redis localhost:6379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
	"github.com/holdfast-go/holdfast/guard/redisstore"
	"github.com/holdfast-go/holdfast/internal/examples/tracetree"
)

func main() {
	addr := flag.String("redis", "", "host:port of a Redis; without it locks are kept in memory")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Stdout, *addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing is left to cancel
	}
}

func run(ctx context.Context, out io.Writer, addr string) error {
	var store guard.Locker = memstore.New()
	if addr != "" {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		var err error
		if store, err = redisstore.New(rdb); err != nil {
			return err
		}
	}
	w, err := newWorld(store)
	if err != nil {
		return err
	}
	err = w.play(ctx, out)
	if err := errors.Join(err, w.close(ctx)); err != nil { // a server ends its spans after its answers
		return err
	}
	_, err = fmt.Fprint(out, "\n", tracetree.Text(w.spans.Ended()))
	return err
}
