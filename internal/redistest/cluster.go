package redistest

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterSlots   = 16384
	clusterMasters = 3
	joinLimit      = 20 * time.Second
)

// Replica starts a replica of primary and returns once it is in step. Its
// commands count on primary too: a REPLCONF a second.
func Replica(t testing.TB, primary *Server, args ...string) *Server {
	t.Helper()
	of := []string{"--replicaof", "127.0.0.1", strconv.Itoa(primary.Port())}
	if pass := primary.password(); pass != "" {
		of = append(of, "--masterauth", pass)
	}
	s := Start(t, append(of, args...)...)
	s.await("master_link_status:up", "INFO", "replication")
	return s
}

// Masters are the nodes of a Cluster without replicas, in the order of the
// slots they own.
type Masters []*Server

// Cluster starts a Cluster of 3 masters that own all slots, and returns once
// every one of them finds it in order. Redis itself takes 2 s for that.
func Cluster(t testing.TB, args ...string) Masters {
	t.Helper()
	m, _ := cluster(t, 0, args)
	return m
}

// ClusterWithReplicas is [Cluster] with one replica for each master, in the same
// order, in step with it.
func ClusterWithReplicas(t testing.TB, args ...string) (Masters, []*Server) {
	t.Helper()
	m, replicas := cluster(t, clusterMasters, args)
	for i, s := range replicas {
		s.must("CLUSTER", "REPLICATE", m[i].id())
	}
	for _, s := range replicas {
		s.await("master_link_status:up", "INFO", "replication")
	}
	return m, replicas
}

func cluster(t testing.TB, spare int, args []string) (Masters, []*Server) {
	t.Helper()
	all := startAll(t, clusterMasters+spare, setup{bus: true, args: append([]string{"--cluster-enabled", "yes"}, args...)})
	m := Masters(all[:clusterMasters])
	for i, s := range m {
		slots := []string{"CLUSTER", "ADDSLOTS"}
		first, end := m.slots(i)
		for slot := first; slot < end; slot++ {
			slots = append(slots, strconv.Itoa(slot))
		}
		s.must(slots...)
		s.must("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // refused once it knows another node
	}
	for _, s := range all {
		for _, other := range all {
			if other != s {
				s.must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port()))
			}
		}
	}
	for _, s := range all {
		s.await(fmt.Sprintf("cluster_known_nodes:%d\r", len(all)), "CLUSTER", "INFO")
		s.await("cluster_state:ok", "CLUSTER", "INFO")
		s.ResetStats()
	}
	return m, all[clusterMasters:]
}

// id is what a node of a Cluster calls itself.
func (s *Server) id() string { return strings.TrimSpace(s.must("CLUSTER", "MYID")) }

// slots returns the first slot of node i, and the first after it.
func (m Masters) slots(i int) (first, end int) {
	return i * clusterSlots / len(m), (i + 1) * clusterSlots / len(m)
}

// Addrs returns the address of every node.
func (m Masters) Addrs() (list []string) {
	for _, s := range m {
		list = append(list, s.Addr())
	}
	return list
}

// Client returns a new Cluster client, closed at the end of t. Each edit may
// change its options first.
func (m Masters) Client(t testing.TB, edit ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	o := &redis.ClusterOptions{Addrs: m.Addrs(), Password: m[0].password()}
	for _, f := range edit {
		f(o)
	}
	c := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

// Of returns the node that owns key.
func (m Masters) Of(key string) *Server {
	m[0].t.Helper()
	slot, err := strconv.Atoi(strings.Trim(m[0].must("CLUSTER", "KEYSLOT", key), ":\r\n"))
	m[0].check(err)
	for i := range m {
		if _, end := m.slots(i); slot < end {
			return m[i]
		}
	}
	return nil
}

// Keys is [Server.Keys] over all nodes.
func (m Masters) Keys(prefix string) map[string]time.Duration {
	found := make(map[string]time.Duration)
	for _, s := range m {
		maps.Copy(found, s.Keys(prefix))
	}
	return found
}

// CommandStats is the sum of [Server.CommandStats] over all nodes.
func (m Masters) CommandStats() map[string]int64 {
	sum := make(map[string]int64)
	for _, s := range m {
		for name, n := range s.CommandStats() {
			sum[name] += n
		}
	}
	return sum
}

// ResetStats sets the counts of all nodes to zero.
func (m Masters) ResetStats() {
	for _, s := range m {
		s.ResetStats()
	}
}
