package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const (
	// Ports, and those of buses, stay below the usual ephemeral range (from 32768),
	// so that no outgoing connection takes a port while its server is down.
	firstPort, lastPort = 10240, 20240
	// busOffset is where a Cluster node listens for other nodes.
	busOffset = lastPort - firstPort
	// blockSize is how many ports a process takes for itself at a time. It listens
	// on the first one of them as long as it runs, and so do the others that share
	// this package keep away.
	blockSize = 250
)

// ports are those of this process. One is a server's or a proxy's until it is
// given back, also while nothing listens there: whoever took it in between would
// answer in the place of a server that is down.
var ports struct {
	mu     sync.Mutex
	free   []int // in the order in which they were given back
	blocks []net.Listener
}

var (
	errNoPort    = errors.New("redistest: no port is free")
	errPortTaken = errors.New("redistest: port is taken")
)

// onPort takes a port for listen. If it finds it taken, the next one is tried: a
// foreign program may have been faster, and a process that is just being started
// has for a moment what was open here when it was forked.
func onPort(bus bool, listen func(port int) error) (port int, err error) {
	for range 50 {
		if port, err = takePort(bus); err != nil {
			return 0, err
		}
		if err = listen(port); err == nil {
			return port, nil
		}
		givePort(port)
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return 0, err
}

// takePort returns a port nobody listens on right now.
func takePort(bus bool) (int, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for {
		for i, port := range ports.free {
			if free(port) && (!bus || free(port+busOffset)) {
				ports.free = append(ports.free[:i:i], ports.free[i+1:]...)
				return port, nil
			}
		}
		if !takeBlock() {
			return 0, errNoPort
		}
	}
}

// givePort gives back what takePort returned.
func givePort(port int) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	ports.free = append(ports.free, port)
}

func takeBlock() bool {
	for _, n := range rand.Perm((lastPort - firstPort) / blockSize) {
		first := firstPort + n*blockSize
		l, err := net.Listen("tcp", loopback(first))
		if err != nil {
			continue
		}
		ports.blocks = append(ports.blocks, l)
		for port := first + 1; port < first+blockSize; port++ {
			ports.free = append(ports.free, port)
		}
		return true
	}
	return false
}

func free(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
