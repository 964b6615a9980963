// Command run explores the models and writes the results to a Markdown table.
//
//	go run ./internal/model/run                      everything
//	go run ./internal/model/run -small               what the tests run
//	go run ./internal/model/run -big                 the others: about half an hour, 4 GB
//	go run ./internal/model/run -match 'mark|reigns' only some; the other rows of the table stay
//	go run ./internal/model/run -match mark -trace   with the way to each broken rule
//
// It fails if a verdict is not the expected one.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"

	"github.com/holdfast-go/holdfast/internal/model"
	"github.com/holdfast-go/holdfast/internal/model/explore"
)

func main() {
	var (
		match = flag.String("match", "", "only cases whose `pattern` occurs in model, name or bounds")
		small = flag.Bool("small", false, "only what the tests run")
		big   = flag.Bool("big", false, "only what the tests leave out")
		trace = flag.Bool("trace", false, "print how each broken rule is reached")
		limit = flag.Int("limit", 160_000_000, "give up a case at this many `states`")
		file  = flag.String("o", "internal/model/RESULTS.md", "table to write; empty for none")
	)
	flag.Parse()
	selected := func(c explore.Case) bool { return c.Big && !*small || !c.Big && !*big }
	if err := run(*match, selected, *trace, *limit, *file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(match string, selected func(explore.Case) bool, trace bool, limit int, file string) error {
	pattern, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	table, err := model.ReadTable(file)
	if err != nil {
		return err
	}
	wrong := 0
	for _, c := range model.Cases() {
		if !selected(c) || !pattern.MatchString(c.Key()) {
			continue
		}
		r := c.Run(explore.Options{Hashed: c.Big, MaxStates: limit})
		debug.FreeOSMemory() // the next case starts with none
		row := model.Row(c, r)
		fmt.Println(row)
		if trace {
			for i, step := range r.Trace {
				fmt.Printf("  %2d. %s\n", i, step)
			}
		}
		if r.Verdict() != c.Expected() {
			wrong++
		}
		table[c.Key()] = row
		if err := model.WriteTable(file, table); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("model: %d verdicts are not the expected ones", wrong)
	}
	return nil
}
