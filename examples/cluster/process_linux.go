package main

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill cmd when this process ends, however it does. A
// group of its own keeps Ctrl-C from it: it is stopped in good order.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
