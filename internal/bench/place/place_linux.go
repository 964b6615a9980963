package place

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// allowed returns the CPUs that this process may use.
func allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	var cpus []int
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// move lets pid, or the calling thread if pid is 0, use only some CPUs.
func move(pid int, cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return unix.SchedSetaffinity(pid, &set)
}

// again runs this program anew, in this process, on some CPUs.
func again(cpus []int, env string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the CPUs of the thread that execs are those of the program
	defer runtime.UnlockOSThread()
	if err := move(0, cpus); err != nil {
		return err
	}
	return unix.Exec(self, os.Args, append(os.Environ(), env))
}
