//go:build !linux

package server

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }
