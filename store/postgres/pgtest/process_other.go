//go:build !linux

package pgtest

import "syscall"

// attributes has no effect here: run the tests as an ordinary user, and call Stop.
func attributes() (*syscall.SysProcAttr, *owner, error) { return nil, nil, nil }

// Attributes returns attributes that make a child process of a test end with it and run without
// the rights of root, or nil on other systems.
func Attributes() *syscall.SysProcAttr { return nil }

// owner is the user that the server runs as.
type owner struct{ uid, gid int }
