package guard

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDatesAreAHeap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var d dates
	at := map[*hold]instant{}
	for range 20_000 {
		switch {
		case len(d) == 0 || rnd.IntN(3) == 0:
			h := &hold{slot: -1}
			at[h] = instant(rnd.Int64N(1000))
			d.set(h, at[h])
		case rnd.IntN(2) == 0:
			h := d[rnd.IntN(len(d))].h
			at[h] = instant(rnd.Int64N(1000))
			d.set(h, at[h])
		default:
			h := d[rnd.IntN(len(d))].h
			delete(at, h)
			d.remove(h)
			d.remove(h) // no more than once
			require.Equal(t, int32(-1), h.slot)
		}
		require.Len(t, at, len(d))
	}
	require.NotEmpty(t, d)
	for last := instant(-1); len(d) > 0; {
		first := d[0]
		require.Equal(t, at[first.h], first.at)
		require.Equal(t, int32(0), first.h.slot)
		require.LessOrEqual(t, last, first.at)
		last = first.at
		d.remove(first.h)
	}
}

func TestALimitEndsByStopOrByItsTimeAndHidesTheParentsEnd(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, 7))
		cancel(context.Canceled)

		endless := &limit{Context: parent}
		_, some := endless.Deadline()
		assert.False(t, some)
		assert.Equal(t, 7, endless.Value(key{}))
		done := endless.Done()
		select {
		case <-done:
			t.Error("done")
		default:
		}
		require.NoError(t, endless.Err())
		child, end := context.WithCancel(endless)
		defer end()
		require.NoError(t, child.Err())
		endless.stop()
		endless.stop()
		<-done
		require.ErrorIs(t, endless.Err(), context.Canceled)
		synctest.Wait()
		require.ErrorIs(t, child.Err(), context.Canceled)

		for _, asked := range []bool{true, false} {
			l := &limit{Context: parent, until: now().add(time.Second)}
			at, some := l.Deadline()
			assert.True(t, some)
			assert.Equal(t, time.Now().Add(time.Second), at)
			if asked {
				start := time.Now()
				<-l.Done()
				assert.Equal(t, time.Second, time.Since(start))
			} else {
				time.Sleep(time.Second)
			}
			require.ErrorIs(t, l.Err(), context.DeadlineExceeded)
			<-l.Done()
			l.stop()
			require.ErrorIs(t, l.Err(), context.DeadlineExceeded, "what it ended by")
		}
		late := &limit{Context: parent, until: now().add(-time.Second)}
		<-late.Done()
		require.ErrorIs(t, late.Err(), context.DeadlineExceeded)
		stopped := &limit{Context: parent, until: now().add(time.Second)}
		stopped.stop()
		<-stopped.Done()
	})
}
