package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/guard"
	"github.com/holdfast-go/holdfast/guard/guardtest"
	"github.com/holdfast-go/holdfast/guard/memstore"
)

func TestContract(t *testing.T) {
	for name, store := range map[string]func() guard.Locker{
		"exclusive": func() guard.Locker { return memstore.New() },
		"fair":      func() guard.Locker { return memstore.New().Fair() },
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, guardtest.Config{New: func(*testing.T) guard.Locker { return store() }, Bubble: synctest.Test})
		})
	}
}

func TestKindsShareTheName(t *testing.T) {
	s := memstore.New()
	r := guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Second}
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, 13, l.HandOffs)
	r.Owner = "bbbbbbbbbbbbbbbbbbbbbb"
	_, err = s.Fair().Acquire(t.Context(), r)
	require.ErrorIs(t, err, guard.ErrHeld)
}

func TestRecordOfRunsIsNotOffered(t *testing.T) {
	_, err := memstore.New().Acquire(t.Context(), guard.Request{Name: "a", Owner: "aaaaaaaaaaaaaaaaaaaaaa", TTL: time.Second, Once: time.Hour})
	require.ErrorIs(t, err, guard.ErrUnsupported)
}
