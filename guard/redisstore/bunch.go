package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	maxBunch  = 32          // names in one call, in which the server serves nobody else
	bunchless = time.Minute // after a bunch was refused
)

// bunch is several requests of one script as one call. It is executed as if they
// had come one after another, for less work of the server, and it is one command
// for the client. A failure of one request is its own: the others are
// carried out, and it is answered that it has to ask again, in another way. See
// OneServer for where there are any.
type bunch struct {
	script  *script
	members []*request
	open    bool // for more
	cmd     *once
}

// gather puts the requests of a batch into bunches, in the order in which they
// came. A bunch of one is that request as it is.
func gather(batch []*request, bunches []bunch) []bunch {
	for _, q := range batch {
		joins := q.script.bunches && !q.alone && q.values[0] == "evalsha"
		at := slices.IndexFunc(bunches, func(b bunch) bool { return joins && b.open && b.script == q.script })
		if at < 0 {
			at = len(bunches)
			bunches = append(bunches, bunch{script: q.script, open: joins, members: make([]*request, 0, min(len(batch), maxBunch))})
		}
		b := &bunches[at]
		b.members = append(b.members, q)
		b.open = b.open && len(b.members) < maxBunch
	}
	for i := range bunches {
		bunches[i].command()
	}
	return bunches
}

// command makes the call: all keys, then all arguments.
func (b *bunch) command() {
	if len(b.members) == 1 {
		b.cmd = b.members[0].cmd
		return
	}
	keys, all := b.script.keys, b.script.keys+b.script.args
	values := make([]any, 3, 3+len(b.members)*all)
	values[0], values[1], values[2] = "evalsha", b.script.sha, len(b.members)*keys
	for _, q := range b.members {
		values = append(values, q.values[3:3+keys]...)
	}
	for _, q := range b.members {
		values = append(values, q.values[3+keys:]...)
	}
	b.cmd = &once{StringCmd: redis.NewStringCmd(background, values...)}
}

// refused tells whether the server did not execute the bunch, and may execute its
// requests one by one.
func (b *bunch) refused() bool {
	err := b.cmd.Err()
	return len(b.members) > 1 && b.cmd.Val() == "" && isServerError(err) && !isNoScript(err)
}

// share gives each request its line of the answer.
func (b *bunch) share() {
	if len(b.members) == 1 {
		return
	}
	err, lines := b.cmd.Err(), b.cmd.Val()
	if lines != "" && strings.Count(lines, "\n") != len(b.members)-1 {
		err, lines = errors.New("redisstore: not one line for each name: "+lines), ""
	}
	for _, q := range b.members {
		var line string
		line, lines, _ = strings.Cut(lines, "\n")
		q.cmd.SetVal(line)
		q.cmd.SetErr(err)
	}
}

// sendAll sends a batch of more than one request. What the server will not do for
// a bunch it is asked to do for each.
func (l *lane) sendAll(ctx context.Context, batch []*request) {
	if !l.bunches || time.Since(time.Unix(0, l.refused.Load())) < bunchless {
		l.pipeline(ctx, batch)
		return
	}
	var room [4]bunch
	bunches := gather(batch, room[:0])
	p := l.rdb.Pipeline()
	for i := range bunches {
		_ = p.Process(ctx, bunches[i].cmd)
	}
	_, _ = p.Exec(ctx)
	var again []*request
	for i := range bunches {
		if b := &bunches[i]; b.refused() {
			again = append(again, b.members...)
		} else {
			b.share()
		}
	}
	if again != nil {
		l.refused.Store(time.Now().UnixNano())
		l.pipeline(ctx, again)
	}
}

// pipeline sends each request as a command of its own.
func (l *lane) pipeline(ctx context.Context, batch []*request) {
	p := l.rdb.Pipeline()
	for _, q := range batch {
		_ = p.Process(ctx, q.cmd)
	}
	_, _ = p.Exec(ctx)
}
