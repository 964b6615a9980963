package redistest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

var sharedServer = struct {
	once  sync.Once
	p     *process
	stats stats
	err   error
}{stats: stats{own: make(map[string]int64)}}

// Shared returns the one server that all tests of a test binary have in
// common; it starts with the first call and ends with the process. Tests, also
// parallel ones, keep apart by naming everything after [Unique]: there is no
// FLUSHALL in between. Stop, Kill, Freeze, Thaw, Restart and ResetStats fail
// the test, and CommandStats counts what all tests do; whoever needs these
// uses [Start], which takes some 20 ms.
func Shared(t testing.TB) *Server {
	t.Helper()
	binary := Binary(t)
	s := &sharedServer
	s.once.Do(func() { s.p, s.err = launch(binary, setup{}) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return &Server{t: t, p: s.p, shared: true, stats: &s.stats}
}

var unique atomic.Int64

// Unique returns a word that no other call in this process returns, made of
// the test's name and a number: letters, digits, "_" and "-" only.
func Unique(t testing.TB) string {
	word := []byte(t.Name())
	for i, b := range word {
		switch {
		case b >= '0' && b <= '9', b >= 'A' && b <= 'Z', b >= 'a' && b <= 'z', b == '_':
		default:
			word[i] = '_'
		}
	}
	return fmt.Sprintf("%s-%d", word, unique.Add(1))
}
