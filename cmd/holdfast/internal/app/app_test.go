package app_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m.Run) }

func TestSubcommands(t *testing.T) {
	for _, tc := range []struct {
		name      string
		args      []string
		code      int
		out, says string // on stdout, on stderr
	}{
		{"version", []string{"version"}, cli.OK, runtime.Version(), ""},
		{"version as a flag", []string{"--version"}, cli.OK, "holdfast ", ""},
		{"help", []string{"help"}, cli.OK, "holdfast run [flags] NAME", ""},
		{"help as a flag", []string{"-h"}, cli.OK, "holdfast demo", ""},
		{"help run", []string{"help", "run"}, cli.OK, "--conflict-exit", ""},
		{"help demo", []string{"help", "demo"}, cli.OK, "--redis", ""},
		{"help about nothing", []string{"help", "rnu"}, cli.Usage, "", "run and demo"},
		{"nothing", nil, cli.Usage, "", "holdfast run [flags] NAME"},
		{"a typing error", []string{"rnu", "x"}, cli.Usage, "", `unknown command "rnu"; there are run, demo, version and help`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := clitest.Command(tc.args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			assert.Equal(t, tc.code, cmd.ProcessState.ExitCode())
			assert.Contains(t, stdout.String(), tc.out)
			assert.Contains(t, stderr.String(), tc.says)
			assert.Equal(t, tc.out == "", stdout.Len() == 0, "stdout: %s", stdout.String())
			assert.Equal(t, tc.says == "", stderr.Len() == 0, "stderr: %s", stderr.String())
		})
	}
}
