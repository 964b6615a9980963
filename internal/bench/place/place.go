// Package place gives the servers CPUs of their own. On one machine the threads
// of a client take the servers' CPUs, which they cannot do where servers are
// usually run, and a round trip has several speeds, by where the scheduler puts
// both sides.
package place

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// env carries the servers' CPUs to the program that Apart starts.
const env = "HOLDFAST_BENCH_SERVER_CPUS"

// Apart leaves one half of the CPUs to the servers, and starts this program
// again on the other half: only then does the Go runtime count just those. Where
// that cannot be done it returns, and all share all CPUs. Call it first in main.
func Apart() error {
	if _, done := os.LookupEnv(env); done {
		return nil
	}
	all, err := allowed()
	if errors.Is(err, errors.ErrUnsupported) || err == nil && len(all) < 2 {
		return nil
	}
	if err != nil {
		return err
	}
	clients, servers := split(all)
	return again(clients, env+"="+list(servers))
}

// split gives the servers, which come last, the smaller half.
func split(cpus []int) (clients, servers []int) {
	n := (len(cpus) + 1) / 2
	return cpus[:n], cpus[n:]
}

// Server moves a process to the servers' CPUs, if there are any.
func Server(pid int) error {
	servers, err := parse(os.Getenv(env))
	if err != nil || len(servers) == 0 {
		return err
	}
	return move(pid, servers)
}

// About says where clients and servers are.
func About() string {
	servers := os.Getenv(env)
	all, err := allowed()
	switch {
	case err != nil:
		return "servers and clients together on all CPUs"
	case servers == "":
		return "servers and clients together on CPU " + list(all)
	default:
		return fmt.Sprintf("servers on CPU %s, clients on CPU %s", servers, list(all))
	}
}

func list(cpus []int) string {
	var texts []string
	for _, c := range cpus {
		texts = append(texts, strconv.Itoa(c))
	}
	return strings.Join(texts, ",")
}

func parse(list string) ([]int, error) {
	var cpus []int
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		c, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("place: %s=%q: %w", env, list, err)
		}
		cpus = append(cpus, c)
	}
	return cpus, nil
}
