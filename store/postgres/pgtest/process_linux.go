package pgtest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// attributes makes the child end with its parent and run without the rights of root.
func attributes() (*syscall.SysProcAttr, *owner, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	who, err := unprivileged()
	if who != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}
	}
	return attr, who, err
}

// Attributes returns attributes that make a child process of a test end with it and run without
// the rights of root, or nil on other systems.
func Attributes() *syscall.SysProcAttr {
	attr, _, err := attributes()
	if err != nil {
		return nil
	}
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

// owner is the user that the server runs as.
type owner struct{ uid, gid int }

// unprivileged returns the user for the server, or nil for the current user.
func unprivileged() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return &owner{uid, gid}, err
}
