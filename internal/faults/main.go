// Command faults runs clients of the lock as processes against real servers,
// lets things go wrong, and checks what the clients saw.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/suite"
	"github.com/holdfast-go/holdfast/internal/faults/tb"
	"github.com/holdfast-go/holdfast/internal/faults/variant"
	"github.com/holdfast-go/holdfast/internal/faults/world"
)

func main() {
	client.Child()
	seed := flag.Uint64("seed", 1, "")
	match := flag.String("topology", "", "")
	variantName := flag.String("variant", "", "")
	scenes := flag.Bool("scenes", false, "")
	flag.Parse()
	program := ""
	if *variantName != "" {
		var err error
		if program, err = variant.Build(context.Background(), *variantName, os.TempDir()); err != nil {
			panic(err)
		}
	}
	if *scenes {
		for _, s := range append(append([]suite.Scene{}, suite.Scenes...), suite.BareMajority) {
			var r *suite.Run
			began := time.Now()
			err := tb.Run(s.Name, func(t *tb.T) { r = s.Play(t, *seed, suite.Options{Program: program}) })
			fmt.Println(s.Name, time.Since(began), err, r.Log, r.Wrong, r.Ops)
		}
		return
	}
	for _, s := range world.Settings {
		if !strings.Contains(s.String(), *match) {
			continue
		}
		var r *suite.Run
		began := time.Now()
		err := tb.Run(s.String(), func(t *tb.T) {
			r = suite.Play(t, s, *seed, suite.Options{Pace: 2 * time.Millisecond, Save: os.TempDir()})
		})
		fmt.Println(s, time.Since(began), err)
		if r != nil {
			fmt.Println("ops", r.Ops, "stale", r.Stale, "models", r.Models, "worst", r.Worst)
			fmt.Println(strings.Join(r.Log, "\n"))
			for p, w := range r.Wrong {
				fmt.Println(p, len(w), strings.Join(w[:min(4, len(w))], "\n   "))
			}
		}
	}
}
