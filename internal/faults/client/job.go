// Package client is a process that uses locks: the program runs itself once more
// for each, so that it can be frozen and killed like any other. A client writes
// down what it did as it happens, on its output, stamped with the monotonic clock
// that all processes of a machine share.
package client

import (
	"time"

	"golang.org/x/sys/unix"
)

// Job is what a client is told at its start.
type Job struct {
	Number   int // of the client, unique in a history
	Seed     uint64
	Store    Store
	TTL      time.Duration
	Storage  string // address of the server with the registers that the locks protect
	Unfenced bool   // the storage does not compare tokens: for the control group

	Counters []string // names whose holders increment a register, slowly
	Brief    []string // names that are held for a moment
	Crowd    string   // a name that the goroutines of a client hand on among themselves
	Workers  int      // goroutines for each of the three
}

// Store says how a client reaches the lock service.
type Store struct {
	Kind      Kind
	Addrs     []string          // of the servers; for Sentinel of those
	Via       map[string]string // links to take instead of a server's address
	MaxTTL    time.Duration
	Grace     bool
	OneServer bool // requests for several names share calls
	NodeLimit time.Duration
}

// Kind is how servers form a lock service.
type Kind string

// Kinds of lock services.
const (
	Single   Kind = "single"
	Sentinel Kind = "sentinel"
	Cluster  Kind = "cluster"
	Quorum   Kind = "quorum"
)

// Order is what a client is told later on. The end of its input ends it.
type Order struct {
	Do   string // one of the constants below
	Name string
	Wait time.Duration // for Acquire
	Pace time.Duration // for Work: mean pause between two brief holds

	Contenders int // for Paths
}

// Orders.
const (
	Work    = "work"    // begin to acquire and release
	Finish  = "finish"  // stop that; then acquire every name once, and say how long each took
	Acquire = "acquire" // one name, and hold it
	Release = "release" // what the last Acquire got
	Paths   = "paths"   // acquire and release Name for Wait, and count how grants were made
)

// Event is one line of a client's output.
type Event struct {
	Kind   EventKind `json:"k"`
	Name   string    `json:"n,omitempty"`
	Worker int       `json:"w,omitempty"`
	Token  int64     `json:"t,omitempty"`
	Called int64     `json:"c,omitempty"` // before the call
	Asked  int64     `json:"a,omitempty"` // before what was granted was first asked for: earlier, if an earlier call did
	Done   int64     `json:"d,omitempty"` // after it
	Until  int64     `json:"u,omitempty"` // end of the lease as known then
	Value  int64     `json:"v,omitempty"`
	Stale  bool      `json:"s,omitempty"` // the storage refused it
	Error  string    `json:"e,omitempty"`
}

// EventKind says what an Event is about.
type EventKind string

// Kinds of events. A Counting hold goes on with a read and a write of the name's
// register: one that is missing later was never answered.
const (
	Ready    EventKind = "ready"
	Granted  EventKind = "got"
	Counting EventKind = "counting" // granted, and the register is used next
	Refused  EventKind = "no"
	Read     EventKind = "read"
	Written  EventKind = "write"
	Silent   EventKind = "silent" // the storage gave no answer
	Ended    EventKind = "end"    // Called is before the release
	Finished EventKind = "finish" // Name was acquired after the faults
	Done     EventKind = "done"
)

// Now is ns of the monotonic clock of the machine.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return t.Nano()
}
