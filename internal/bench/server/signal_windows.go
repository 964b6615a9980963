package server

import "syscall"

// Windows stops no process; sending these fails.
const (
	stopSignal     = syscall.Signal(-1)
	continueSignal = syscall.Signal(-1)
)
