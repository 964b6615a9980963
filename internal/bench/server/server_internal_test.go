//go:build linux

package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAllThreadsOfAServerRunOnTheServersCPUs(t *testing.T) {
	bin := os.Getenv("HOLDFAST_REDIS_SERVER")
	if bin == "" {
		bin = "redis-server"
	}
	if _, err := exec.LookPath(bin); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Setenv("HOLDFAST_BENCH_SERVER_CPUS", "0")
	s, err := Start(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, file := range threads {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "Cpus_allowed_list:\t0\n") {
			t.Errorf("%v: %s", err, text)
		}
	}
}
