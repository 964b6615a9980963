package guard

import (
	"context"
	"log/slog"
)

// Log is an observer that writes to l: losses, stale writes, failed releases and
// failed renewals at Warn, calls that waited in vain at Info, the rest at Debug.
// A nil l is slog.Default.
func Log(l *slog.Logger) Observer {
	if l == nil {
		l = slog.Default()
	}
	return logger{l}
}

type logger struct{ *slog.Logger }

func (l logger) Begin(ctx context.Context, _ Call) context.Context { return ctx }

func (l logger) Event(ctx context.Context, e Event) {
	level, msg := slog.LevelDebug, ""
	switch e.Kind {
	case Waiting:
		msg = "lock is held, waiting"
	case Granted:
		msg = "lock granted"
	case Renewed:
		msg = "lock renewed"
	case RenewFailed:
		level, msg = slog.LevelWarn, "lock not renewed, trying again"
	case HandedOn:
		msg = "lock handed on"
	case Lost:
		level, msg = slog.LevelWarn, "lock lost"
	case Stale:
		level, msg = slog.LevelWarn, "stale write refused"
	case ReleaseFailed:
		level, msg = slog.LevelWarn, "lock not released, it will expire"
	}
	if !l.Enabled(ctx, level) {
		return
	}
	attrs := attrsOf(e.Call, int64(e.Token), e.Err)
	if e.Holder != nil {
		attrs = append(attrs, slog.String("holder", e.Holder.Holder), slog.Duration("holder_left", e.Holder.RetryIn))
	}
	l.LogAttrs(ctx, level, msg, attrs...)
}

func (l logger) End(ctx context.Context, o Outcome) {
	level, msg := slog.LevelDebug, "lock released"
	if o.HeldFor == 0 && o.Result != ResultAcquired && o.Result != ResultAfterWait {
		level, msg = slog.LevelInfo, "lock not acquired"
	}
	if !l.Enabled(ctx, level) {
		return
	}
	attrs := attrsOf(o.Call, int64(o.Token), o.Err)
	attrs = append(attrs, slog.String("result", o.Result), slog.Duration("waited", o.Waited),
		slog.Duration("held", o.HeldFor), slog.Int("attempts", o.Attempts))
	if o.Nodes > 0 {
		attrs = append(attrs, slog.Int("nodes", o.Nodes))
	}
	l.LogAttrs(ctx, level, msg, attrs...)
}

func attrsOf(c Call, token int64, err error) []slog.Attr {
	attrs := []slog.Attr{slog.String("lock", c.Name)}
	if c.Class != "" {
		attrs = append(attrs, slog.String("class", c.Class))
	}
	if token != 0 {
		attrs = append(attrs, slog.Int64("token", token))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	return attrs
}
