package work

import "time"

// Workload is a workload by name, and how much of it is done.
type Workload struct {
	Name string
	Do   func(*Run, Load) error
	Load Load
}

const ms = time.Millisecond

// ours are those that hold the lock for long, or take turns, in W3.
var ours = []string{"floor", "holdfast", "holdfast-fair"}

// Full is what takes 28 minutes on two cores.
func Full() []Workload {
	return []Workload{
		{"w1", W1, Load{Reps: 40, Dur: 60 * ms}},
		{"w2", W2, Load{Reps: 11, Dur: 200 * ms, Shapes: []Shape{{Goroutines: 1}, {Goroutines: 8}, {Goroutines: 64}, {Goroutines: 256}}}},
		{"w3", W3, Load{Reps: 3, Dur: time.Second, Shapes: []Shape{
			{Goroutines: 2}, {Goroutines: 8}, {Goroutines: 64},
			{Goroutines: 2, Hold: ms}, {Goroutines: 8, Hold: ms}, {Goroutines: 64, Hold: ms},
			{Goroutines: 64, Hold: 10 * ms, Dur: 3 * time.Second, Only: ours},
			{Goroutines: 32, Hold: 2 * ms, Dur: 5 * time.Second, Only: ours},
		}}},
		{"w4", W4, Load{Reps: 5, Dur: 1500 * ms, Shapes: []Shape{
			{Processes: 4, Goroutines: 1}, {Processes: 4, Goroutines: 4}, {Processes: 4, Goroutines: 8},
		}}},
		{"w5", W5, Load{Reps: 1, Dur: 12 * time.Second, Shapes: []Shape{
			{Leases: 1, TTL: time.Second, Only: ours[:2]}, {Leases: 1000}, {Leases: 10_000, Reps: 3}, {Leases: 100_000},
		}}},
		{"w6", W6, Load{Reps: 3, Dur: 4 * time.Second}},
	}
}

// QuickTTL keeps renewals and restart grace within the time of Quick.
const QuickTTL = 3 * time.Second

// Quick takes less than three minutes and has every shape that a bar is about.
func Quick() []Workload {
	return []Workload{
		{"w1", W1, Load{Reps: 10, Dur: 40 * ms}},
		{"w2", W2, Load{Reps: 3, Dur: 100 * ms, Shapes: []Shape{{Goroutines: 1}, {Goroutines: 64}, {Goroutines: 256}}}},
		{"w3", W3, Load{Reps: 1, Dur: 500 * ms, Shapes: []Shape{
			{Goroutines: 64}, {Goroutines: 64, Hold: ms},
			{Goroutines: 64, Hold: 10 * ms, Dur: 2 * time.Second, Only: ours},
			{Goroutines: 32, Hold: 2 * ms, Dur: 2 * time.Second, Only: ours},
		}}},
		{"w4", W4, Load{Reps: 1, Dur: 500 * ms, Shapes: []Shape{
			{Processes: 4, Goroutines: 1}, {Processes: 4, Goroutines: 4}, {Processes: 4, Goroutines: 8},
		}}},
		{"w5", W5, Load{Reps: 1, Dur: 3 * time.Second, Shapes: []Shape{
			{Leases: 1, TTL: time.Second, Dur: 6 * time.Second, Only: ours[:2]}, {Leases: 10_000},
		}}},
		{"w6", W6, Load{Reps: 1, Dur: 500 * ms}},
	}
}
