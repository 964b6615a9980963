package run_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/run"
	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/memstore"
)

func TestNameIsReadAsGuardWritesIt(t *testing.T) {
	for name, want := range map[string][]string{
		"nightly":       {"nightly"},
		"order/42":      {"order", "42"},
		"a%2Fb/c":       {"a/b", "c"},
		"100%25":        {"100%"},
		"%7Bx%7D":       {"{x}"},
		"with blank/é+": {"with blank", "é+"},
	} {
		got, err := run.NameParts(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	for _, name := range []string{"/a", "a/", "a//b", "/", "100%", "%zz", ""} {
		_, err := run.NameParts(name)
		assert.Error(t, err, name)
	}
}

func FuzzNameOfAnyPartsCanBeTyped(f *testing.F) {
	f.Add("order", "42")
	f.Add("a/b", "%2F{}\x00\xff")
	locks := guard.Must(guard.New(memstore.New()))
	f.Fuzz(func(t *testing.T, a, b string) {
		name := locks.Name(a, b)
		nothing := func(context.Context) error { return nil }
		if _, err := guard.Try(t.Context(), name, nothing); errors.Is(err, guard.ErrInvalid) {
			return // empty parts, or too long
		}
		got, err := run.NameParts(name.String())
		require.NoError(t, err)
		assert.Equal(t, []string{a, b}, got)
	})
}
