package redistest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortOfALinkThatRefusesIsGivenToNobody(t *testing.T) {
	p := NewProxy(t, "127.0.0.1:1")
	p.Refuse()
	var taken []int
	defer func() {
		for _, port := range taken {
			givePort(port)
		}
	}()
	seen := map[string]bool{p.Addr(): true}
	for range 2 * blockSize {
		port, err := takePort(false)
		require.NoError(t, err)
		taken = append(taken, port)
		require.False(t, seen[loopback(port)], "%d is given twice", port)
		seen[loopback(port)] = true
	}
	ports.mu.Lock()
	defer ports.mu.Unlock()
	require.GreaterOrEqual(t, len(ports.blocks), 3)
	for _, l := range ports.blocks {
		require.False(t, seen[l.Addr().String()])
		require.False(t, free(l.Addr().(*net.TCPAddr).Port), "another process must not take the block")
	}
}

func TestPortThatWasGivenBackIsTakenLast(t *testing.T) {
	port, err := takePort(false)
	require.NoError(t, err)
	givePort(port)
	again, err := takePort(false)
	require.NoError(t, err)
	defer givePort(again)
	require.NotEqual(t, port, again)
}
