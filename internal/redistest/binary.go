package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// EnvServer names another binary to start instead of the redis-server in PATH.
const EnvServer = "HOLDFAST_REDIS_SERVER"

const howToInstall = "install it (apt-get install redis-server, brew install redis) or name one in " + EnvServer

var warnOnce sync.Once

// Binary returns the path of the redis-server to start. Without one the test
// fails when the environment variable CI is set, and is skipped otherwise, with
// one line on stderr per test binary.
func Binary(t testing.TB) string {
	t.Helper()
	name := os.Getenv(EnvServer)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("redistest: %v; %s", err, howToInstall)
	}
	warnOnce.Do(func() {
		fmt.Fprintf(os.Stderr, "\n*** redistest: SKIPPING EVERY TEST THAT NEEDS A SERVER: %v; %s\n\n", err, howToInstall)
	})
	t.Skipf("redistest: %v; %s", err, howToInstall)
	return ""
}

var versionPattern = regexp.MustCompile(`v=(\d+)\.(\d+)`)

// Version returns the major and minor version of [Binary].
func Version(t testing.TB) (major, minor int) {
	t.Helper()
	out, err := exec.Command(Binary(t), "--version").Output()
	if err != nil {
		t.Fatalf("redistest: asking for the version: %v", err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		t.Fatalf("redistest: no version in %q", out)
	}
	major, _ = strconv.Atoi(string(m[1]))
	minor, _ = strconv.Atoi(string(m[2]))
	return major, minor
}
