//go:build unix

package cli_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func raise(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(os.Getpid(), s))
}
