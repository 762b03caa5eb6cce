// Command etcdserver is the etcd server that the tests of the driver start. It is
// a module of its own and no part of the workspace, so that neither consumers of
// the driver nor its other tests inherit the server's dependencies.
//
// It takes the flags of etcd, and ends when its standard input does: a test that
// dies leaves no server behind.
package main

import (
	"io"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the end of the input, however it comes
		os.Exit(0)
	}()
	etcdmain.Main(os.Args)
}
