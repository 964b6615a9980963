package run_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// keyboard is somebody at a terminal.
type keyboard struct {
	t      *testing.T
	master *os.File
	screen chan string
	seen   string
}

// sit starts cmd as the first process of a terminal.
func sit(t *testing.T, cmd *exec.Cmd) *keyboard {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = master.Close() })
	k := &keyboard{t: t, master: master, screen: make(chan string, 1000)}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				close(k.screen)
				return
			}
			k.screen <- string(buf[:n])
		}
	}()
	return k
}

func (k *keyboard) press(keys string) {
	k.t.Helper()
	_, err := k.master.WriteString(keys)
	require.NoError(k.t, err)
}

// sees waits until text is on the screen, and forgets all up to there.
func (k *keyboard) sees(text string) {
	k.t.Helper()
	for end := time.After(soon); ; {
		if _, after, ok := strings.Cut(k.seen, text); ok {
			k.seen = after
			return
		}
		select {
		case s := <-k.screen:
			k.seen += s
		case <-end:
			require.Fail(k.t, "not on the screen", "%q, but %q", text, k.seen)
		}
	}
}

// shellWith is a shell in which "holdfast" runs the test's holdfast.
func shellWith(args ...string) *exec.Cmd {
	holdfast := clitest.Command()
	cmd := exec.Command("sh", args...)
	cmd.Env = slices.Concat(holdfast.Env, []string{"ENV=", "PS1=ready> ", "H=" + holdfast.Path})
	return cmd
}

func TestCommandCanReadFromTheTerminal(t *testing.T) {
	s := redistest.Shared(t)
	p := clitest.Command(append([]string{"run"}, clitest.On(s, redistest.Unique(t), []string{"--", "sh", "-c", "read line; echo got $line"})...)...)
	k := sit(t, p)
	k.press("news\n")
	k.sees("got news")
	_ = p.Wait()
	assert.Equal(t, 0, p.ProcessState.ExitCode())
}

func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	s := redistest.Shared(t)
	p := clitest.Command(append([]string{"run"}, clitest.On(s, redistest.Unique(t), []string{"--", "sh", "-c",
		`trap 'echo caught' INT; echo up; read a; read b; echo $b; exit 5`})...)...)
	k := sit(t, p)
	k.sees("up")
	k.press("\x03")
	k.sees("caught")
	k.press("x\ny\n")
	_ = p.Wait()
	assert.Equal(t, 5, p.ProcessState.ExitCode())
	k.sees("y")
	assert.NotContains(t, k.seen, "caught")
}

func TestCtrlCEndsTheWait(t *testing.T) {
	s := redistest.Shared(t)
	name := redistest.Unique(t)
	rival(t, s, name)
	p := clitest.Command(append([]string{"run"}, clitest.On(s, name, []string{"--", "echo", "ran"})...)...)
	k := sit(t, p)
	k.sees(`waiting for "` + name + `", held by "the rival"`)
	k.press("\x03")
	_ = p.Wait()
	assert.Equal(t, cli.Signalled+int(syscall.SIGINT), p.ProcessState.ExitCode())
}

func TestTerminalIsGivenBackToAScript(t *testing.T) {
	s := redistest.Shared(t)
	k := sit(t, shellWith("-c", fmt.Sprintf(`"$H" run --redis redis://%s %s -- true; read line; echo then $line`, s.Addr(), redistest.Unique(t))))
	k.press("news\n")
	k.sees("then news")
}

func TestCommandStoppedAtTheTerminalGoesOn(t *testing.T) {
	s := redistest.Shared(t)
	name := redistest.Unique(t)
	k := sit(t, shellWith("-i"))
	k.sees("ready> ")
	k.press(fmt.Sprintf("\"$H\" run --redis redis://%s %s -- sh -c 'echo u\"\"p; read line; echo got $line; exit 4'\n", s.Addr(), name))
	k.sees("up")
	k.press("\x1a")
	k.sees("ready> ")
	assert.True(t, held(t, s.Client(t), name))
	k.press("fg\n")
	k.sees("run")
	k.press("news\n")
	k.sees("got news")
	k.sees("ready> ")
	k.press("echo code=$?\n")
	k.sees("code=4")
}

func TestCommandStoppedAtTheTerminalEndsWithItsLease(t *testing.T) {
	s := redistest.Shared(t)
	name, l := redistest.Unique(t), clitest.Listen(t)
	command := l.Shell("echo up >&9; read x; echo bad >&9")
	k := sit(t, shellWith("-i"))
	k.sees("ready> ")
	k.press(fmt.Sprintf("\"$H\" run --redis redis://%s --ttl 1s %s -- sh -c \"$(printf '%%b' '%s')\"\n", s.Addr(), name,
		strings.NewReplacer("'", "\\0047", "\n", "\\n").Replace(command[3])))
	require.Equal(t, "up", l.Next())
	k.press("\x1a")
	k.sees("ready> ")
	l.Over()
	require.Eventually(t, func() bool { return !held(t, s.Client(t), name) }, soon, tick)
	k.press("fg\n")
	k.sees("ready> ")
	k.press("echo code=$?\n")
	k.sees(fmt.Sprintf("code=%d", cli.Lost))
}
