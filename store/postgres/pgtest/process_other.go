//go:build !linux

package pgtest

import "syscall"

// attributes leaves everything as it is: run the tests as an ordinary user, and
// call Stop.
func attributes() (*syscall.SysProcAttr, *owner, error) { return nil, nil, nil }

// Attributes returns what makes a child process of a test end with it, and run
// without the rights of root; nil where that is not to be had.
func Attributes() *syscall.SysProcAttr { return nil }

// owner is the user that the server runs as.
type owner struct{ uid, gid int }
