// Command mutate breaks the rules of this module one at a time, and sees whether
// the test that is named beside the breakage fails.
//
//	go run ./internal/mutate                 every patch beside this file
//	go run ./internal/mutate -run release    those whose name matches
//
// A patch starts with the rule it breaks and the command that must notice:
//
//	# rule: a holder's renewal never creates the key
//	# test: go test ./guard/redisstore -run '^TestRenewNeverCreates$'
//
// It is applied to a copy of the files that git tracks, with the changes not yet
// committed. The command must pass there before, so a new test has to be known
// to git (git add). The exit code is 1 unless every patch is caught: if one is
// survived, does not apply, does not compile, or names no test that passes.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	var (
		match   = flag.String("run", "", "only patches whose name matches this `regexp`")
		workers = flag.Int("p", 1, "how many to try at a `time`")
		timeout = flag.Duration("timeout", 2*time.Minute, "for a command that sets no -timeout of its own")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *match, *workers, *timeout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, match string, workers int, timeout time.Duration) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("mutate: go list -m: %w", err)
	}
	root := strings.TrimSpace(string(out))
	pattern, err := regexp.Compile(match)
	if err != nil {
		return fmt.Errorf("mutate: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(root, "internal", "mutate", "*.patch"))
	if err != nil {
		return err
	}
	var patches []patch
	for _, file := range files {
		if !pattern.MatchString(filepath.Base(file)) {
			continue
		}
		p, err := readPatch(file)
		if err != nil {
			return err
		}
		patches = append(patches, p)
	}
	if len(patches) == 0 {
		return fmt.Errorf("mutate: no patch matches %q", match)
	}
	r := runner{root: root, workers: max(workers, 1), timeout: timeout, report: printResult}
	results, err := r.run(ctx, patches)
	if err != nil {
		return err
	}
	return summary(results)
}

func printResult(r result) {
	fmt.Printf("%-18s %6.1fs  %-32s %s\n", r.verdict, r.took.Seconds(), r.patch.name, r.patch.rule)
	if r.verdict != caught {
		fmt.Printf("\t%s\n", strings.Join(r.patch.test, " "))
		for line := range strings.Lines(tail(r.output, 40)) {
			fmt.Print("\t| ", line)
		}
		fmt.Println()
	}
}

// summary counts, and returns an error unless all were caught.
func summary(results []result) error {
	good := 0
	for _, r := range results {
		if r.verdict == caught {
			good++
		}
	}
	fmt.Printf("\n%d of %d patches caught\n", good, len(results))
	if good < len(results) {
		return errors.New("mutate: some are not")
	}
	return nil
}

// tail returns the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return cmp.Or(strings.Join(lines[max(0, len(lines)-n):], "\n"), "no output")
}
