package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by SHA-1
	_ "embed"
	"encoding/hex"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/stand.lua
var standLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/leave.lua
var leaveLua string

//go:embed lua/renew.lua
var renewLua string

// script is one of the Lua scripts, with the number of keys and arguments it is
// called with. Its requests are used again: command, argument list and the bytes
// of the arguments.
type script struct {
	source     string
	sha        string
	keys, args int  // for each name
	bunches    bool // it takes several names
	pool       sync.Pool
}

func newScript(source string, keys, args int) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	s := &script{source: source, sha: hex.EncodeToString(sum[:]), keys: keys, args: args}
	s.pool.New = func() any { return s.fresh() }
	return s
}

func newBunchScript(source string, keys, args int) *script {
	s := newScript(source, keys, args)
	s.bunches = true
	return s
}

var (
	acquireScript     = newBunchScript(acquireLua, 2, 3)
	acquireWithScript = newBunchScript(acquireLua, 2, 6)
	standScript       = newScript(standLua, 5, 10)
	releaseScript     = newBunchScript(releaseLua, 1, 1)
	leaveScript       = newScript(leaveLua, 5, 6)
	renewScript       = newBunchScript(renewLua, 2, 3)
)

// once is a command that go-redis sends at most once: a copy sent behind our
// back could be executed after the lease it asked for was given up.
type once struct {
	*redis.StringCmd
	quick bool // see shortcut
}

// NoRetry keeps go-redis from sending the command again.
func (*once) NoRetry() bool { return true }

// shortcut is a hook of the user's client. It sends a command of ours that is
// marked quick through a copy of the client, on the same connections, that gives
// up a read early. As a hook it stands behind those that the user has added, such
// as tracing, and they see the command as usual.
type shortcut struct{ quick *redis.Client }

func (shortcut) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s shortcut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c, ours := cmd.(*once); ours && c.quick {
			return s.quick.Process(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}

func (shortcut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// request is a script call on its way. It belongs to the lane until done; a
// caller that stops waiting leaves it behind and never uses it again.
type request struct {
	script  *script
	cmd     *once
	values  []any  // evalsha, sha, number of keys, keys, arguments
	texts   []text // what values point to
	filled  int
	self    [1]*request   // a batch of its own
	alone   bool          // in no bunch
	patient bool          // nobody minds if others are asked first
	done    chan struct{} // receives once the answer is there

	// of deadlines
	by         time.Time
	prev, next *request
	listed     bool
	gone, left bool // given up; it had been sent
}

// text is an argument: bytes that are used again from call to call.
type text struct{ b []byte }

// MarshalBinary gives go-redis the bytes to send.
func (t *text) MarshalBinary() ([]byte, error) { return t.b, nil }

// String is what go-redis hashes for the Cluster slot, and what hooks show.
func (t *text) String() string { return string(t.b) }

func (s *script) fresh() *request {
	n := s.keys + s.args
	q := &request{script: s, values: make([]any, 3+n), texts: make([]text, n), done: make(chan struct{}, 1)}
	q.values[0], q.values[1], q.values[2] = "evalsha", s.sha, s.keys
	for i := range q.texts {
		q.values[3+i] = &q.texts[i]
	}
	q.cmd = &once{StringCmd: redis.NewStringCmd(context.Background(), q.values...)}
	return q
}

// get returns a request to fill with put, key by key and argument by argument.
func (s *script) get() *request {
	q := s.pool.Get().(*request)
	q.filled = 0
	q.cmd.SetErr(nil)
	q.cmd.SetVal("")
	q.cmd.quick = false
	q.alone, q.patient = false, false
	return q
}

// recycle takes back a request that was answered.
func (q *request) recycle() { q.script.pool.Put(q) }

// again makes a request with the same content and a new command, for sending it
// once more. With the source the server need not know the script.
func (q *request) again(withSource bool) *request {
	c := q.script.fresh()
	c.alone, c.patient = q.alone, q.patient
	for i := range q.texts {
		c.texts[i].b = append(c.texts[i].b, q.texts[i].b...)
	}
	if withSource {
		c.values[0], c.values[1] = "eval", q.script.source
	}
	return c
}

// put sets the next key or argument to the parts joined.
func (q *request) put(parts ...string) {
	t := &q.texts[q.filled]
	q.filled++
	t.b = t.b[:0]
	for _, p := range parts {
		t.b = append(t.b, p...)
	}
}

func (q *request) putInt(n int64) {
	t := &q.texts[q.filled]
	q.filled++
	t.b = strconv.AppendInt(t.b[:0], n, 10)
}

// putToken writes 0 as the empty string: not given.
func (q *request) putToken(n int64) {
	if n == 0 {
		q.put("")
		return
	}
	q.putInt(n)
}
