// Package world is a lock service of real servers, its clients, and what goes
// wrong between them.
package world

// Fault is a kind of fault.
type Fault string

// Faults of servers. "Keeps" and "loses" are about the data.
const (
	Freeze        Fault = "server frozen (SIGSTOP)"
	RestartKeeps  Fault = "server killed, restarted with its append-only file"
	RestartLoses  Fault = "server killed, restarted empty"
	Flush         Fault = "FLUSHALL"
	ScriptFlush   Fault = "SCRIPT FLUSH"
	Pause         Fault = "CLIENT PAUSE"
	Busy          Fault = "server busy with a script"
	Memory        Fault = "out of memory (maxmemory)"
	ClockBack     Fault = "clock stepped back"
	ClockForward  Fault = "clock stepped forward"
	ReplicaLag    Fault = "replica lags, and is promoted without what it missed"
	Promote       Fault = "failover by REPLICAOF NO ONE"
	SentinelKill  Fault = "primary killed, failover by Sentinel"
	SentinelStop  Fault = "primary frozen, failover by Sentinel"
	ClusterManual Fault = "failover by CLUSTER FAILOVER"
	ClusterKill   Fault = "master killed, CLUSTER FAILOVER TAKEOVER"
	Migrate       Fault = "slot migrated"
)

// Faults of links.
const (
	Latency   Fault = "latency"
	Bandwidth Fault = "bandwidth"
	Partition Fault = "partition of half of the clients"
	Requests  Fault = "requests cut, replies pass"
	Replies   Fault = "replies cut, requests pass"
	HalfOpen  Fault = "half-open connection"
	Reset     Fault = "connections reset"
	Refuse    Fault = "connections refused"
)

// Faults of clients.
const (
	HolderFrozen Fault = "holder frozen beyond its TTL (SIGSTOP)"
	HolderKilled Fault = "holder killed (kill -9)"
)

// Links are faults that any topology survives.
var Links = []Fault{Latency, Bandwidth, Partition, Requests, Replies, HalfOpen, Reset, Refuse}

// Clients are what happens to clients everywhere.
var Clients = []Fault{HolderFrozen, HolderKilled, HolderFrozen}
