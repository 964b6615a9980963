package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/guard"
)

// answer is what a script replied, taken apart. A script replies with one line:
// a letter, then fields without spaces, and last, if any, a field that may hold
// anything.
type answer struct {
	kind    byte // see the headers of the scripts
	token   fence.Token
	time    fence.Token // server time, µs
	waiting bool
	pttl    time.Duration // -1: no expiry, -2: free
	mark    fence.Token
	rank    int
	ticket  string
	value   string
	seconds int
}

func parse(s string) (a answer, err error) {
	f := fields{rest: s}
	kind := f.next()
	if len(kind) != 1 {
		return a, fmt.Errorf("redisstore: reply %.80q is not one of ours", s)
	}
	switch a.kind = kind[0]; a.kind {
	case 'G':
		if strings.HasPrefix(f.rest, "0 ") || strings.HasPrefix(f.rest, "1 ") { // renewed
			a.waiting = f.next() == "1"
			a.token = fence.Token(f.int())
			break
		}
		a.token = fence.Token(f.int())
		a.time = f.time()
		a.waiting = f.rest != "" && f.next() == "1"
	case 'H':
		a.pttl = f.millis()
		a.mark = fence.Token(f.int())
		a.time = f.time()
		a.rank = int(f.int())
		a.ticket = f.next()
		a.value = f.rest
	case 'U':
		a.seconds = int(f.int())
	case 'T', 'R', 'I', 'N', 'S', 'D', 'P', 'M', 'O':
	default:
		f.bad = true
	}
	if f.bad {
		return a, fmt.Errorf("redisstore: reply %.80q is not one of ours", s)
	}
	return a, nil
}

// fields cuts a reply at its spaces.
type fields struct {
	rest string
	bad  bool
}

func (f *fields) next() string {
	field, rest, _ := strings.Cut(f.rest, " ")
	f.rest = rest
	return field
}

func (f *fields) int() int64 {
	n, err := strconv.ParseInt(f.next(), 10, 64)
	f.bad = f.bad || err != nil
	return n
}

// millis keeps the negative answers of PTTL as they are, and cuts what a
// Duration could not hold: another program may set any expiry.
func (f *fields) millis() time.Duration {
	n := f.int()
	if n < 0 {
		return time.Duration(n)
	}
	return time.Duration(min(n, 1<<43)) * time.Millisecond
}

// time reads TIME's two fields, seconds and µs.
func (f *fields) time() fence.Token {
	sec, usec := f.int(), f.int()
	f.bad = f.bad || sec < 0 || sec > 1<<40 || usec < 0 || usec > 999_999
	return fence.Token(sec*1e6 + usec)
}

const ownerLen = 22

// holder is a lease value taken apart: flag, owner, "|", token, "|", trace, "|",
// label. ok is false for another program's value.
type holder struct {
	owner, trace, label string
	token               fence.Token
	waiting             bool
}

func parseValue(v string) (h holder, ok bool) {
	if len(v) < ownerLen+4 || !strings.ContainsRune("-+~", rune(v[0])) || v[1+ownerLen] != '|' {
		return h, false
	}
	h.owner, h.waiting = v[1:1+ownerLen], v[0] == '+'
	if v[0] != '~' && !isOwner(h.owner) {
		return h, false
	}
	token, tail, found := strings.Cut(v[2+ownerLen:], "|")
	n, err := strconv.ParseInt(token, 10, 64)
	if !found || err != nil || n <= 0 {
		return h, false
	}
	h.token = fence.Token(n)
	h.trace, h.label, _ = strings.Cut(tail, "|")
	return h, true
}

func isOwner(s string) bool {
	if len(s) != ownerLen {
		return false
	}
	for i := range len(s) {
		if !base64url[s[i]] {
			return false
		}
	}
	return true
}

var base64url = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		is[c] = true
	}
	return is
}()

// held is the refusal in an answer of kind H.
func (a answer) held(name string) *guard.HeldError {
	e := &guard.HeldError{Name: name, Mark: a.mark, ServerTime: a.time, RetryIn: max(0, a.pttl)}
	if a.value == "" {
		return e
	}
	h, ours := parseValue(a.value)
	e.Foreign = !ours
	if ours {
		e.Holder, e.Trace, e.Token = h.label, h.trace, h.token
	}
	return e
}
