// SPDX-License-Identifier: GPL-2.0

// Act on memory pressure: wait for a trigger with epoll.
//
//	watch /proc/pressure/memory "some 150000 2000000"
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: watch FILE TRIGGER")
		os.Exit(2)
	}
	fd, err := syscall.Open(os.Args[1], syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == nil {
		_, err = syscall.Write(fd, []byte(os.Args[2]+"\x00"))
	}
	epoll, _ := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	event := syscall.EpollEvent{Events: syscall.EPOLLPRI, Fd: int32(fd)}
	if err == nil {
		err = syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, fd, &event)
	}
	for events := make([]syscall.EpollEvent, 1); err == nil; {
		if n, _ := syscall.EpollWait(epoll, events, -1); n == 1 && events[0].Events&syscall.EPOLLERR != 0 {
			err = syscall.ENODEV // the cgroup is gone, or switched off
		} else if n == 1 {
			fmt.Println("memory is short: drop caches")
		}
	}
	fmt.Fprintln(os.Stderr, os.Args[1], err)
	os.Exit(1)
}
