package redistest

import "os"

// Reap makes a process that a test has started end with the test binary, however
// that ends, even if it is frozen by then. Call done once it has ended.
func Reap(p *os.Process) (done func(), err error) {
	if _, err := reaperRoot(); err != nil {
		return nil, err
	}
	reap(p.Pid)
	return func() { unreap(p.Pid) }, nil
}
