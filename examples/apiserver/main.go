// Apiserver is a service that kubectl and client-go work against: namespaces,
// content of built-in and of own types, quotas and limit ranges, over any store,
// with a controller that empties what is deleted.
//
//	go run ./examples/apiserver --data /tmp/nslifecycle --write-kubeconfig /tmp/nslifecycle.yaml
//	kubectl --kubeconfig /tmp/nslifecycle.yaml create namespace development
//
// --types 60 serves as many further types of content, t001.example.com and so on, so
// that there is as much to discover, list and empty as in a large cluster.
//
// What is deleted with a grace (the annotation nslifecycle.io/deletion-grace) is on hold
// first, and deleted when that is over. --debug-listen 127.0.0.1:8081 serves pages that
// show what keeps namespaces, at http://127.0.0.1:8081/debug/namespaces/.
//
// Without --tokens every client that reaches the port may do everything, in plain HTTP. So
// it listens on loopback unless --insecure-listen is given, and refuses what web pages have
// a browser send. With --tokens it serves HTTPS, since clients send tokens over nothing
// else, and --grants says who may do what.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	var usage *usageError
	switch err := run(ctx, os.Stdout, os.Stderr, os.Args[1:]); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}
