package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// verdict is what became of a patch.
type verdict string

const (
	caught         verdict = "caught"
	survived       verdict = "SURVIVED"         // the test passes without the rule
	doesNotApply   verdict = "DOES NOT APPLY"   // the code has changed since
	doesNotCompile verdict = "DOES NOT COMPILE" // which no test has noticed
	noTest         verdict = "NO TEST"          // none of that name, or it is skipped
	failsAnyway    verdict = "FAILS UNPATCHED"  // the test proves nothing
	failsOddly     verdict = "NO TEST FAILED"   // but the command did
)

type result struct {
	patch   patch
	verdict verdict
	output  string // of the command that decided
	took    time.Duration
}

type runner struct {
	root    string
	workers int
	timeout time.Duration
	report  func(result) // called for each result as it comes, never concurrently
}

// run tries every patch. The error is about the machinery, not about a patch.
func (r runner) run(ctx context.Context, patches []patch) ([]result, error) {
	temp, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	if temp, err = filepath.EvalSymlinks(temp); err != nil { // git compares real paths
		return nil, err
	}
	before := map[string]func(dir string) result{}
	for _, p := range patches {
		key := strings.Join(p.test, "\x00")
		if before[key] == nil {
			before[key] = r.once(ctx, p)
		}
	}

	var (
		mu      sync.Mutex
		results []result
		failed  error
		wg      sync.WaitGroup
		queue   = make(chan patch)
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := func(dir string) error {
		if err := copyTree(ctx, r.root, dir); err != nil {
			return err
		}
		for p := range queue {
			res, err := r.try(ctx, dir, p, before[strings.Join(p.test, "\x00")])
			if err != nil {
				return err
			}
			mu.Lock()
			results = append(results, res)
			r.report(res)
			mu.Unlock()
		}
		return nil
	}
	for i := range r.workers {
		wg.Go(func() {
			if err := work(filepath.Join(temp, fmt.Sprint(i))); err != nil {
				cancel()
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
feed:
	for _, p := range patches {
		select {
		case queue <- p:
		case <-ctx.Done():
			break feed
		}
	}
	close(queue)
	wg.Wait()
	if failed == nil && len(results) < len(patches) {
		failed = context.Cause(ctx)
	}
	return results, failed
}

// once returns a func that runs p's command on unpatched code, the first time it
// is called, and returns the verdict caught if a test ran and passed.
func (r runner) once(ctx context.Context, p patch) func(dir string) result {
	var once sync.Once
	var res result
	return func(dir string) result {
		once.Do(func() {
			out, err := r.goTest(ctx, dir, p, "-v")
			res = result{output: out, verdict: caught}
			switch {
			case err != nil:
				res.verdict = failsAnyway
			case !passed.MatchString(out) || skipped.MatchString(out):
				res.verdict = noTest
			}
		})
		return res
	}
}

// Tests at the top level only: a subtest may be skipped.
var (
	passed  = regexp.MustCompile(`(?m)^--- PASS: `)
	skipped = regexp.MustCompile(`(?m)^--- SKIP: `)
	failure = regexp.MustCompile(`(?m)^(--- FAIL: |panic: |fatal error: |WARNING: DATA RACE)`)
)

// try applies p in dir, runs its test and takes p back.
func (r runner) try(ctx context.Context, dir string, p patch, before func(dir string) result) (result, error) {
	start := time.Now()
	res := before(dir)
	res.patch = p
	if res.verdict == caught {
		if out, err := apply(ctx, dir, p.file); err != nil {
			res.verdict, res.output = doesNotApply, out
		} else {
			res.verdict, res.output = r.judge(ctx, dir, p)
			if out, err := apply(ctx, dir, p.file, "-R"); err != nil {
				return res, fmt.Errorf("mutate: %s cannot be taken back: %w: %s", p.name, err, out)
			}
		}
	}
	res.took = time.Since(start)
	return res, ctx.Err()
}

func (r runner) judge(ctx context.Context, dir string, p patch) (verdict, string) {
	if out, err := r.goTest(ctx, dir, p, "-exec", "true"); err != nil { // builds, and runs nothing
		return doesNotCompile, out
	}
	out, err := r.goTest(ctx, dir, p)
	switch {
	case err == nil:
		return survived, out
	case !failure.MatchString(out):
		return failsOddly, out
	}
	return caught, out
}

// goTest runs p's command in dir with more flags.
func (r runner) goTest(ctx context.Context, dir string, p patch, flags ...string) (output string, err error) {
	// What vet finds in broken code is not what a test finds.
	args := append(append([]string{}, p.test[1:]...), "-count=1", "-vet=off")
	if !hasFlag(p.test, "timeout") {
		args = append(args, "-timeout="+r.timeout.String())
	}
	cmd := exec.CommandContext(ctx, p.test[0], append(args, flags...)...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
