package main

import (
	"syscall"
	"unsafe"
)

// monotonic is the clock that all processes of a host share.
func monotonic() int64 {
	const clockMonotonic = 1
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}
