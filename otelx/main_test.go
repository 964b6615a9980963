package otelx_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// partVar names a part that this test binary plays as a process of its own.
const partVar = "OTELX_TEST_PART"

var parts = map[string]func(){"globals": globals, "holder": holder}

func TestMain(m *testing.M) {
	if play := parts[os.Getenv(partVar)]; play != nil {
		play()
		return
	}
	os.Exit(m.Run())
}

func part(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), partVar+"="+name)
	return cmd
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
