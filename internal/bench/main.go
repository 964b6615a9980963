// Command bench measures holdfast, other lock libraries and the bare commands
// side by side, on redis-servers that it starts itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/bench/contest"
	"github.com/holdfast-go/holdfast/internal/bench/place"
	"github.com/holdfast-go/holdfast/internal/bench/report"
	"github.com/holdfast-go/holdfast/internal/bench/server"
	"github.com/holdfast-go/holdfast/internal/bench/work"
)

const nodes = 5

// config is what the flags say.
type config struct {
	workloads, contestants []string

	quick    bool
	together bool
	shape    string
	reps     int
	dur      time.Duration
	ttl      time.Duration
	bin      string
	out      string

	profile string
}

func main() {
	redis.SetLogger(quiet{})
	work.Child()
	c, err := parse(os.Args[1:])
	if err == nil && !c.together {
		err = place.Apart()
	}
	if err == nil {
		err = c.run(os.Stdout)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// quiet drops what go-redis says about servers that are down on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func parse(args []string) (*config, error) {
	c := &config{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	w := f.String("w", "", "workloads, such as w1,w3 (default all)")
	names := f.String("c", "", "contestants (default all); ratios need floor, or redsync-5 in w6")
	f.BoolVar(&c.quick, "quick", false, "fewer shapes and shorter: under three minutes")
	f.BoolVar(&c.together, "together", false, "servers and clients share all CPUs, instead of half of them for each")
	f.StringVar(&c.shape, "s", "", "only shapes with this in their name, such as '256 goroutines'")
	f.IntVar(&c.reps, "reps", 0, "repetitions, instead of each workload's own")
	f.DurationVar(&c.dur, "dur", 0, "time of a measurement, instead of each workload's own")
	f.DurationVar(&c.ttl, "ttl", 0, "TTL of the locks, whole seconds (default 10s, 3s with -quick)")
	f.StringVar(&c.bin, "redis", "redis-server", "server to start")
	f.StringVar(&c.out, "out", "", "folder for RESULTS.md and RESULTS.svg (default . if all is run, otherwise nothing is written)")
	f.StringVar(&c.profile, "profile", "", "file for a CPU profile of this process: not of servers, and not of w4 and w5")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	c.workloads, c.contestants = split(*w), split(*names)
	if c.out == "" && *w+*names+c.shape == "" {
		c.out = "."
	}
	if c.ttl == 0 {
		c.ttl = 10 * time.Second
		if c.quick {
			c.ttl = work.QuickTTL
		}
	}
	for _, name := range c.contestants {
		if _, ok := contest.Find(name); !ok {
			return nil, fmt.Errorf("no contestant %q", name)
		}
	}
	return c, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// plan is what is run.
func (c *config) plan() ([]work.Workload, error) {
	all := work.Full()
	if c.quick {
		all = work.Quick()
	}
	var plan []work.Workload
	for _, w := range all {
		if len(c.workloads) > 0 && !slices.Contains(c.workloads, w.Name) {
			continue
		}
		w.Load.Shapes = slices.DeleteFunc(w.Load.Shapes, func(s work.Shape) bool { return !strings.Contains(s.String(), c.shape) })
		if c.reps > 0 {
			w.Load.Reps = c.reps
			for i := range w.Load.Shapes {
				w.Load.Shapes[i].Reps = 0
			}
		}
		if c.dur > 0 {
			w.Load.Dur = c.dur
		}
		plan = append(plan, w)
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("no workload of %q", c.workloads)
	}
	return plan, nil
}

func (c *config) run(stdout io.Writer) error {
	plan, err := c.plan()
	if err != nil {
		return err
	}
	if c.out != "" {
		if err := os.MkdirAll(c.out, 0o755); err != nil {
			return err
		}
	}
	begin, load := time.Now(), busy()
	r, err := c.profiled(plan)
	if err != nil {
		return err
	}
	page := report.Page{About: c.about(begin, load), Results: r.Results}
	if c.out == "" {
		_, err = io.WriteString(stdout, page.Markdown("RESULTS.svg"))
		return err
	}
	fmt.Fprintln(stdout, strings.Join(page.Bars(), "\n"))
	return errors.Join(
		os.WriteFile(filepath.Join(c.out, "RESULTS.md"), []byte(page.Markdown("RESULTS.svg")), 0o644),
		os.WriteFile(filepath.Join(c.out, "RESULTS.svg"), []byte(page.Plot()), 0o644))
}

// profiled is measure with a profile if one is wanted.
func (c *config) profiled(plan []work.Workload) (*work.Run, error) {
	if c.profile == "" {
		return c.measure(plan)
	}
	f, err := os.Create(c.profile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	return c.measure(plan)
}

// measure runs the plan on servers of its own.
func (c *config) measure(plan []work.Workload) (*work.Run, error) {
	r := &work.Run{TTL: c.ttl, Names: c.contestants, Log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}}
	for range nodes {
		s, err := server.Start(c.bin)
		if err != nil {
			return nil, err
		}
		defer s.Kill()
		r.Servers = append(r.Servers, s)
	}
	for _, w := range plan {
		at := time.Now()
		if err := w.Do(r, w.Load); err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		for _, s := range r.Servers {
			s.Flush()
		}
		r.Log("%s: %v", w.Name, time.Since(at).Round(time.Second))
	}
	return r, nil
}

// about is the head of the page.
func (c *config) about(begin time.Time, load string) []string {
	version, err := server.Version(c.bin)
	if err != nil {
		version = err.Error()
	}
	about := []string{
		fmt.Sprintf("%s, %v, `%s`", begin.Format(time.DateOnly), time.Since(begin).Round(time.Second),
			strings.Join(append([]string{"go run ."}, os.Args[1:]...), " ")),
		fmt.Sprintf("%s/%s, %s, on loopback%s", runtime.GOOS, runtime.GOARCH, place.About(), load),
		fmt.Sprintf("Redis %s without persistence, %s, TTL %v", version, runtime.Version(), c.ttl),
	}
	info, _ := debug.ReadBuildInfo()
	for _, path := range []string{"redis/go-redis/v9", "bsm/redislock", "go-redsync/redsync/v4", "redis/rueidis"} {
		for _, m := range info.Deps {
			if m.Path == "github.com/"+path {
				about[2] += fmt.Sprintf(", %s %s", path, m.Version)
			}
		}
	}
	return about
}

// busy tells how busy the machine is, where it says so.
func busy() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return ", load average " + strings.Join(strings.Fields(string(load))[:3], " ") + " at the beginning"
}
