// Command faults runs clients of the lock as processes against real servers, lets
// things go wrong, and checks what the clients saw.
//
//	go run .                              the long share
//	go run . -topology sentinel -seed 7   the same faults as in another run
//
// It prints verdicts, and fails if something was violated that is claimed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/suite"
	"github.com/holdfast-go/holdfast/internal/faults/tb"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func main() {
	client.Child()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run() error {
	s := suite.Share{Say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	flag.Uint64Var(&s.Seed, "seed", uint64(time.Now().Unix()), "of the first history; the next ones count up")
	flag.IntVar(&s.Histories, "histories", 20, "of each setting")
	flag.DurationVar(&s.For, "for", 0, "go on with more histories for this long")
	flag.StringVar(&s.Topology, "topology", "", "only settings with this in their name, such as quorum-3")
	flag.IntVar(&s.Scenes, "scenes", 200, "plays of each scene")
	flag.IntVar(&s.Control, "control", 20, "histories within which each broken variant must be found; 0: none is tried")
	flag.DurationVar(&s.Paths, "paths", 5*time.Second, "how long to count the paths of quorum grants")
	flag.IntVar(&s.Side, "p", max(1, runtime.NumCPU()), "histories at a time")
	flag.StringVar(&s.Save, "save", "", "folder for pages of histories that failed (default a new one)")
	out := flag.String("out", "", "file for the verdicts (default RESULTS.md if all settings are run)")
	flag.Parse()
	if *out == "" && s.Topology == "" && s.Histories > 0 {
		*out = "RESULTS.md"
	}
	var err error
	if s.Save == "" {
		s.Save, err = os.MkdirTemp("", "faults-")
	} else {
		err = os.MkdirAll(s.Save, 0o755)
	}
	if err != nil {
		return err
	}
	fmt.Printf("seed %d, histories that fail are saved in %s\n", s.Seed, s.Save)
	total := s.Do()
	page := total.Page(fmt.Sprintf("`%s` with %s", strings.Join(append([]string{"go run ."}, os.Args[1:]...), " "), about()))
	fmt.Printf("\n%s\n\n%s", strings.Join(total.Lines(), "\n"), page)
	if *out != "" {
		if err := os.WriteFile(*out, []byte(page), 0o644); err != nil {
			return err
		}
	}
	if bad := total.Failures(); len(bad) > 0 {
		return errors.New(strings.Join(bad, "\n"))
	}
	return nil
}

// about is what the run depends on.
func about() string {
	text := fmt.Sprintf("%s, %s/%s, %d CPUs for servers and clients together", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	_ = tb.Run("version", func(t *tb.T) {
		major, minor := redistest.Version(t)
		text = fmt.Sprintf("Redis %d.%d, %s", major, minor, text)
	})
	return text
}
