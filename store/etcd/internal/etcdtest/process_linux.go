package etcdtest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when this process dies, also a child
// that is paused.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
