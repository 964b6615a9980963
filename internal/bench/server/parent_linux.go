package server

import "syscall"

// withParent makes a server end with us, however we end.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
