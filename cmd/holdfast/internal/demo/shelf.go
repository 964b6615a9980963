package demo

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/fence"
)

// shelf is where the stock is kept: two steps, as in most services, with time
// for others in between. A fenced one refuses whoever comes with a token lower
// than one it has seen, at the read already: see package fence.
type shelf interface {
	read(ctx context.Context, sku string) (units int, err error)
	write(ctx context.Context, sku string, units int) error
}

// memory is a shelf in this process.
type memory struct {
	fenced bool

	mu    sync.Mutex
	units map[string]int
	gate  fence.Gate
}

func (m *memory) read(ctx context.Context, sku string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.admit(ctx); err != nil {
		return 0, err
	}
	return m.units[sku], nil
}

func (m *memory) write(ctx context.Context, sku string, units int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.admit(ctx); err != nil {
		return err
	}
	m.units[sku] = units
	return nil
}

func (m *memory) admit(ctx context.Context) error {
	if !m.fenced {
		return nil
	}
	return m.gate.Raise(ctx)
}
