package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

const (
	barWidth = 40
	redraw   = 50 * time.Millisecond
)

// bar shows on a terminal how far a pass is. Elsewhere it shows nothing.
type bar struct {
	out   io.Writer // nil: nobody watches
	total int
	done  atomic.Int64
}

func newBar(f *os.File, total int) *bar {
	b := &bar{total: total}
	if cli.IsTerminal(f) {
		b.out = f
	}
	return b
}

func (b *bar) add(n int) { b.done.Add(int64(n)) }

// start shows the bar until stop is called, which removes it.
func (b *bar) start(label string) (stop func()) {
	b.done.Store(0)
	if b.out == nil {
		return func() {}
	}
	quit := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			fmt.Fprintf(b.out, "\r%s", b.line(label))
			select {
			case <-tick.C:
			case <-quit:
				fmt.Fprintf(b.out, "\r%s\r", strings.Repeat(" ", len(b.line(label))))
				return
			}
		}
	})
	return func() { close(quit); drawing.Wait() }
}

func (b *bar) line(label string) string {
	done := int(b.done.Load())
	full := barWidth * done / max(b.total, 1)
	return fmt.Sprintf("%-16s[%s%s] %4d/%d", label, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, b.total)
}
