package server

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Counters are those of several servers, added up.
type Counters struct {
	At      time.Time
	CPU     time.Duration      // user and system time
	Expired float64            // keys that ran out
	calls   map[string]float64 // of each command, those in scripts too
}

// Read asks all servers. One that does not answer counts as zero.
func Read(servers []*Server) *Counters {
	c := &Counters{At: time.Now(), calls: map[string]float64{}}
	for _, s := range servers {
		text, err := s.ctl.Info(context.Background(), "everything").Result()
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			c.add(strings.TrimSpace(line))
		}
	}
	return c
}

func (c *Counters) add(line string) {
	key, value, _ := strings.Cut(line, ":")
	number, _ := strconv.ParseFloat(value, 64)
	switch key {
	case "used_cpu_user", "used_cpu_sys":
		c.CPU += time.Duration(number * float64(time.Second))
	case "expired_keys":
		c.Expired += number
	}
	if command, ok := strings.CutPrefix(key, "cmdstat_"); ok {
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, _ := strconv.ParseFloat(calls, 64)
		c.calls[command] += n
	}
}

// Since is what was added after an earlier reading.
func (c *Counters) Since(earlier *Counters) *Counters {
	d := &Counters{At: c.At, CPU: c.CPU - earlier.CPU, Expired: c.Expired - earlier.Expired, calls: map[string]float64{}}
	for name, n := range c.calls {
		d.calls[name] = n - earlier.calls[name]
	}
	return d
}

// Sum adds up the calls of some commands.
func (c *Counters) Sum(commands []string) float64 {
	sum := 0.0
	for _, name := range commands {
		sum += c.calls[name]
	}
	return sum
}
