//go:build unix

package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// reaperScript outlives the test binary by a moment: when its input ends,
// because the binary is gone however it went, it kills the servers still listed
// and removes their directory. It is what ends a shared server, and what ends
// all of them when a test panics or is killed.
const reaperScript = `
pids=
while read -r op pid; do
	case $op in
	add) pids="$pids $pid" ;;
	del)
		rest=
		for p in $pids; do [ "$p" = "$pid" ] || rest="$rest $p"; done
		pids=$rest ;;
	esac
done
[ -z "$pids" ] || kill -9 $pids
rm -rf -- "$1"
`

var reaper struct {
	once sync.Once
	root string
	err  error

	mu    sync.Mutex
	input io.Writer
}

// reaperRoot starts the reaper with the first call and returns the directory
// that ends with the test binary.
func reaperRoot() (string, error) {
	reaper.once.Do(func() {
		reaper.root, reaper.err = os.MkdirTemp("", "redistest-")
		if reaper.err != nil {
			return
		}
		cmd := exec.Command("/bin/sh", "-c", reaperScript, "redistest-reaper", reaper.root)
		ownGroup(cmd)
		input, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		reaper.input, reaper.err = input, err
	})
	return reaper.root, reaper.err
}

func reap(pid int)   { tellReaper("add", pid) }
func unreap(pid int) { tellReaper("del", pid) }

func tellReaper(op string, pid int) {
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	_, _ = fmt.Fprintln(reaper.input, op, pid) // a reaper somebody killed is no reason to fail a test
}

// ownGroup keeps a Ctrl-C meant for the test away from cmd: a frozen server
// could not act on it, and the reaper must outlive it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// suspend returns once p has really stopped: the signal alone leaves it running
// for a moment on another core.
func suspend(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case status.Stopped():
			return nil
		default:
			return os.ErrProcessDone
		}
	}
}
