//go:build linux

package place

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	begin   = "PLACE_TEST_BEGIN"   // on which CPUs
	onThose = "PLACE_TEST_ON_THEM" // the program is there
)

// The test binary is the program that is started again.
func TestMain(m *testing.M) {
	if os.Getenv(onThose) != "" {
		tell()
	}
	if on := os.Getenv(begin); on != "" {
		cpus, err := parse(on)
		if err == nil {
			err = again(cpus, onThose+"=1")
		}
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// tell says where it is, and where a server of its own is.
func tell() {
	server := exec.Command("sleep", "60")
	err := Apart()
	if err == nil {
		err = server.Start()
	}
	if err == nil {
		err = Server(server.Process.Pid)
		fmt.Printf("%s; %d; %s\n", About(), runtime.NumCPU(), cpusOf(server.Process.Pid))
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func cpusOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if cpus, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(cpus)
		}
	}
	return "?"
}

func TestServersGetCPUsOfTheirOwn(t *testing.T) {
	all, err := allowed()
	if err != nil {
		t.Fatal(err)
	}
	first := all[0]
	is(t, all[:1], fmt.Sprintf("servers and clients together on CPU %d; 1; %[1]d\n", first))
	if len(all) > 1 {
		is(t, all[:2], fmt.Sprintf("servers on CPU %d, clients on CPU %d; 1; %[1]d\n", all[1], first))
	}
}

// is checks what the program says when it is started on some CPUs.
func is(t *testing.T, all []int, want string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), begin+"="+list(all))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("%v: got %q, want %q", err, out, want)
	}
}

func TestTheServersGetTheSmallerHalf(t *testing.T) {
	for _, c := range []struct{ all, clients, servers []int }{
		{[]int{3, 5}, []int{3}, []int{5}},
		{[]int{0, 1, 2}, []int{0, 1}, []int{2}},
		{[]int{0, 1, 2, 3}, []int{0, 1}, []int{2, 3}},
	} {
		if clients, servers := split(c.all); !slices.Equal(clients, c.clients) || !slices.Equal(servers, c.servers) {
			t.Errorf("%v: got %v and %v", c.all, clients, servers)
		}
	}
}
