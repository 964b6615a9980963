package redistest

import "sync"

// Oracle counts how many are inside a critical section at once, by name. The
// zero Oracle is ready; its methods may be called concurrently. It sees one
// process only.
type Oracle struct {
	mu     sync.Mutex
	inside map[string]int
	max    int
	total  int
}

// Enter says that the caller is inside name, until it calls leave.
func (o *Oracle) Enter(name string) (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inside == nil {
		o.inside = make(map[string]int)
	}
	o.inside[name]++
	o.total++
	o.max = max(o.max, o.inside[name])
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.inside[name]--
	}
}

// Max returns the largest number that was ever inside one name at once.
func (o *Oracle) Max() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.max
}

// Total returns how often Enter was called.
func (o *Oracle) Total() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}
