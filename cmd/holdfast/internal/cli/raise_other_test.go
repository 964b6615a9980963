//go:build !unix

package cli_test

import (
	"syscall"
	"testing"
)

func raise(t *testing.T, _ syscall.Signal) { t.Skip("no way to signal oneself on this system") }
