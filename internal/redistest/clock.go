package redistest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

//go:embed shim/clock.c
var shimSource []byte

var shim struct {
	once sync.Once
	path string
	err  error
}

// NodesWithClock is [Nodes] with wall clocks of their own, which start ahead of
// ours by offset, and which [Server.SetClock] steps. A C compiler is needed; the
// test fails without one when the environment variable CI is set, and is skipped
// otherwise.
func NodesWithClock(t testing.TB, n int, offset time.Duration, args ...string) []*Server {
	t.Helper()
	shim.once.Do(func() { shim.path, shim.err = buildShim() })
	if shim.err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(shim.err)
		}
		t.Skip(shim.err)
	}
	return startAll(t, n, setup{clock: &offset, args: args})
}

// SetClock steps the wall clock of a server of [NodesWithClock]: from now on it
// is ahead of ours by offset, also after a restart.
func (s *Server) SetClock(offset time.Duration) {
	s.t.Helper()
	if s.p.clock == nil {
		s.t.Errorf("redistest: the clock of server %s is everybody's, use NodesWithClock", s.Addr())
		return
	}
	s.check(s.p.setClock(offset))
}

func buildShim() (string, error) {
	root, err := reaperRoot()
	if err != nil {
		return "", err
	}
	source, path := filepath.Join(root, "clock.c"), filepath.Join(root, "clock.so")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", path, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redistest: building the clock: %w: %s; install a C compiler (apt-get install gcc)", err, out)
	}
	return path, nil
}

// setClock writes the 8 bytes at once: the server reads them at any time.
func (p *process) setClock(offset time.Duration) error {
	f, err := os.OpenFile(p.clockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset)), 0)
	return err
}

func (p *process) clockFile() string { return filepath.Join(p.dir, "clock") }

func (p *process) clockEnv() ([]string, error) {
	return append(os.Environ(), "LD_PRELOAD="+shim.path, "CLOCK_OFFSET="+p.clockFile()), shim.err
}
