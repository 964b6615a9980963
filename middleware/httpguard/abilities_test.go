package httpguard_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// plain is a ResponseWriter without optional abilities, and counts calls by
// method name.
type plain struct {
	http.ResponseWriter
	calls map[string]int
}

type (
	flushes   struct{ p *plain }
	hijacks   struct{ p *plain }
	readsFrom struct{ p *plain }
	pushes    struct{ p *plain }
	notifies  struct{ p *plain }
)

func (a flushes) Flush() { a.p.calls["Flush"]++ }

func (a hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.p.calls["Hijack"]++
	return nil, nil, nil
}

func (a readsFrom) ReadFrom(r io.Reader) (int64, error) {
	a.p.calls["ReadFrom"]++
	return io.Copy(io.Discard, r)
}

func (a pushes) Push(string, *http.PushOptions) error {
	a.p.calls["Push"]++
	return nil
}

func (a notifies) CloseNotify() <-chan bool {
	a.p.calls["CloseNotify"]++
	return nil
}

// abilities are all sets of optional abilities that a writer can have. In bit
// order of the index: Flush, Hijack, ReadFrom, Push, CloseNotify.
func abilities(p *plain) []http.ResponseWriter {
	f, h, r, u, n := flushes{p}, hijacks{p}, readsFrom{p}, pushes{p}, notifies{p}
	return []http.ResponseWriter{
		p,
		struct {
			*plain
			flushes
		}{p, f},
		struct {
			*plain
			hijacks
		}{p, h},
		struct {
			*plain
			flushes
			hijacks
		}{p, f, h},
		struct {
			*plain
			readsFrom
		}{p, r},
		struct {
			*plain
			flushes
			readsFrom
		}{p, f, r},
		struct {
			*plain
			hijacks
			readsFrom
		}{p, h, r},
		struct {
			*plain
			flushes
			hijacks
			readsFrom
		}{p, f, h, r},
		struct {
			*plain
			pushes
		}{p, u},
		struct {
			*plain
			flushes
			pushes
		}{p, f, u},
		struct {
			*plain
			hijacks
			pushes
		}{p, h, u},
		struct {
			*plain
			flushes
			hijacks
			pushes
		}{p, f, h, u},
		struct {
			*plain
			readsFrom
			pushes
		}{p, r, u},
		struct {
			*plain
			flushes
			readsFrom
			pushes
		}{p, f, r, u},
		struct {
			*plain
			hijacks
			readsFrom
			pushes
		}{p, h, r, u},
		struct {
			*plain
			flushes
			hijacks
			readsFrom
			pushes
		}{p, f, h, r, u},
		struct {
			*plain
			notifies
		}{p, n},
		struct {
			*plain
			flushes
			notifies
		}{p, f, n},
		struct {
			*plain
			hijacks
			notifies
		}{p, h, n},
		struct {
			*plain
			flushes
			hijacks
			notifies
		}{p, f, h, n},
		struct {
			*plain
			readsFrom
			notifies
		}{p, r, n},
		struct {
			*plain
			flushes
			readsFrom
			notifies
		}{p, f, r, n},
		struct {
			*plain
			hijacks
			readsFrom
			notifies
		}{p, h, r, n},
		struct {
			*plain
			flushes
			hijacks
			readsFrom
			notifies
		}{p, f, h, r, n},
		struct {
			*plain
			pushes
			notifies
		}{p, u, n},
		struct {
			*plain
			flushes
			pushes
			notifies
		}{p, f, u, n},
		struct {
			*plain
			hijacks
			pushes
			notifies
		}{p, h, u, n},
		struct {
			*plain
			flushes
			hijacks
			pushes
			notifies
		}{p, f, h, u, n},
		struct {
			*plain
			readsFrom
			pushes
			notifies
		}{p, r, u, n},
		struct {
			*plain
			flushes
			readsFrom
			pushes
			notifies
		}{p, f, r, u, n},
		struct {
			*plain
			hijacks
			readsFrom
			pushes
			notifies
		}{p, h, r, u, n},
		struct {
			*plain
			flushes
			hijacks
			readsFrom
			pushes
			notifies
		}{p, f, h, r, u, n},
	}
}

// noHijack offers a hijack that fails, as the second one of a connection does.
type noHijack struct{ http.ResponseWriter }

func (noHijack) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrHijacked }
