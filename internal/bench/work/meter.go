package work

import (
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/bench/server"
)

// meter reads what client and servers use during a measurement.
type meter struct {
	servers []*server.Server
	before  *server.Counters
	mem     runtime.MemStats
	cpu     time.Duration
	at      time.Time
}

// usage is what was used between start and stop.
type usage struct {
	*server.Counters

	took, cpu      time.Duration // cpu of this process
	mallocs, bytes float64
}

func startMeter(servers []*server.Server) *meter {
	m := &meter{servers: servers}
	runtime.GC()
	m.before = server.Read(servers)
	runtime.ReadMemStats(&m.mem)
	m.cpu, m.at = cpuTime(), time.Now()
	return m
}

func (m *meter) stop() usage {
	u := usage{took: time.Since(m.at), cpu: cpuTime() - m.cpu}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.mallocs, u.bytes = float64(mem.Mallocs-m.mem.Mallocs), float64(mem.TotalAlloc-m.mem.TotalAlloc)
	u.Counters = server.Read(m.servers).Since(m.before)
	return u
}
