package httpguard

import (
	"io"
	"net/http"
)

const (
	canFlush = 1 << iota
	canHijack
	canReadFrom
	canPush
	canCloseNotify
)

// expose returns w with exactly those optional interfaces that the original has:
// code that asserts one must not be disappointed later, nor miss it. A type
// either has a method or not, so there is one type for each set.
func (w *writer) expose() http.ResponseWriter {
	has := 0
	f, h, r := flusher{w}, hijacker{w}, readerFrom{w}
	if _, ok := w.ResponseWriter.(http.Flusher); ok {
		has |= canFlush
	}
	if _, ok := w.ResponseWriter.(http.Hijacker); ok {
		has |= canHijack
	}
	if _, ok := w.ResponseWriter.(io.ReaderFrom); ok {
		has |= canReadFrom
	}
	p, ok := w.ResponseWriter.(http.Pusher)
	if ok {
		has |= canPush
	}
	c, ok := w.ResponseWriter.(closeNotifier)
	if ok {
		has |= canCloseNotify
	}
	switch has {
	case canFlush:
		return struct {
			*writer
			http.Flusher
		}{w, f}
	case canHijack:
		return struct {
			*writer
			http.Hijacker
		}{w, h}
	case canFlush | canHijack:
		return struct {
			*writer
			http.Flusher
			http.Hijacker
		}{w, f, h}
	case canReadFrom:
		return struct {
			*writer
			io.ReaderFrom
		}{w, r}
	case canFlush | canReadFrom:
		return struct {
			*writer
			http.Flusher
			io.ReaderFrom
		}{w, f, r}
	case canHijack | canReadFrom:
		return struct {
			*writer
			http.Hijacker
			io.ReaderFrom
		}{w, h, r}
	case canFlush | canHijack | canReadFrom:
		return struct {
			*writer
			http.Flusher
			http.Hijacker
			io.ReaderFrom
		}{w, f, h, r}
	case canPush:
		return struct {
			*writer
			http.Pusher
		}{w, p}
	case canFlush | canPush:
		return struct {
			*writer
			http.Flusher
			http.Pusher
		}{w, f, p}
	case canHijack | canPush:
		return struct {
			*writer
			http.Hijacker
			http.Pusher
		}{w, h, p}
	case canFlush | canHijack | canPush:
		return struct {
			*writer
			http.Flusher
			http.Hijacker
			http.Pusher
		}{w, f, h, p}
	case canReadFrom | canPush:
		return struct {
			*writer
			io.ReaderFrom
			http.Pusher
		}{w, r, p}
	case canFlush | canReadFrom | canPush:
		return struct {
			*writer
			http.Flusher
			io.ReaderFrom
			http.Pusher
		}{w, f, r, p}
	case canHijack | canReadFrom | canPush:
		return struct {
			*writer
			http.Hijacker
			io.ReaderFrom
			http.Pusher
		}{w, h, r, p}
	case canFlush | canHijack | canReadFrom | canPush:
		return struct {
			*writer
			http.Flusher
			http.Hijacker
			io.ReaderFrom
			http.Pusher
		}{w, f, h, r, p}
	case canCloseNotify:
		return struct {
			*writer
			closeNotifier
		}{w, c}
	case canFlush | canCloseNotify:
		return struct {
			*writer
			http.Flusher
			closeNotifier
		}{w, f, c}
	case canHijack | canCloseNotify:
		return struct {
			*writer
			http.Hijacker
			closeNotifier
		}{w, h, c}
	case canFlush | canHijack | canCloseNotify:
		return struct {
			*writer
			http.Flusher
			http.Hijacker
			closeNotifier
		}{w, f, h, c}
	case canReadFrom | canCloseNotify:
		return struct {
			*writer
			io.ReaderFrom
			closeNotifier
		}{w, r, c}
	case canFlush | canReadFrom | canCloseNotify:
		return struct {
			*writer
			http.Flusher
			io.ReaderFrom
			closeNotifier
		}{w, f, r, c}
	case canHijack | canReadFrom | canCloseNotify:
		return struct {
			*writer
			http.Hijacker
			io.ReaderFrom
			closeNotifier
		}{w, h, r, c}
	case canFlush | canHijack | canReadFrom | canCloseNotify:
		return struct {
			*writer
			http.Flusher
			http.Hijacker
			io.ReaderFrom
			closeNotifier
		}{w, f, h, r, c}
	case canPush | canCloseNotify:
		return struct {
			*writer
			http.Pusher
			closeNotifier
		}{w, p, c}
	case canFlush | canPush | canCloseNotify:
		return struct {
			*writer
			http.Flusher
			http.Pusher
			closeNotifier
		}{w, f, p, c}
	case canHijack | canPush | canCloseNotify:
		return struct {
			*writer
			http.Hijacker
			http.Pusher
			closeNotifier
		}{w, h, p, c}
	case canFlush | canHijack | canPush | canCloseNotify:
		return struct {
			*writer
			http.Flusher
			http.Hijacker
			http.Pusher
			closeNotifier
		}{w, f, h, p, c}
	case canReadFrom | canPush | canCloseNotify:
		return struct {
			*writer
			io.ReaderFrom
			http.Pusher
			closeNotifier
		}{w, r, p, c}
	case canFlush | canReadFrom | canPush | canCloseNotify:
		return struct {
			*writer
			http.Flusher
			io.ReaderFrom
			http.Pusher
			closeNotifier
		}{w, f, r, p, c}
	case canHijack | canReadFrom | canPush | canCloseNotify:
		return struct {
			*writer
			http.Hijacker
			io.ReaderFrom
			http.Pusher
			closeNotifier
		}{w, h, r, p, c}
	case canFlush | canHijack | canReadFrom | canPush | canCloseNotify:
		return struct {
			*writer
			http.Flusher
			http.Hijacker
			io.ReaderFrom
			http.Pusher
			closeNotifier
		}{w, f, h, r, p, c}
	}
	return w
}
