// Apiserver is a service that kubectl and client-go work against: namespaces,
// content of built-in and of own types, quotas and limit ranges, over any store,
// with a controller that empties what is deleted.
//
//	go run ./examples/apiserver --write-kubeconfig ~/.kube/nslifecycle.yaml
//	kubectl --kubeconfig ~/.kube/nslifecycle.yaml create namespace development
//
// --types 60 serves as many further types of content, t001.example.com and so on, so
// that there is as much to discover, list and empty as in a large cluster.
//
// What is deleted with a grace (the annotation nslifecycle.io/deletion-grace) is on hold
// first, and deleted when that is over. --debug-listen 127.0.0.1:8081 serves pages that
// show what keeps namespaces, at http://127.0.0.1:8081/debug/namespaces/.
//
// The audit records of a removed namespace are deleted 30 days after they were written.
//
// Without --tokens every client that reaches the port may do everything, in plain HTTP.
// Therefore the program listens on loopback unless --insecure-listen is given, and refuses
// requests of web pages in browsers. With --tokens it serves HTTPS, since clients send tokens
// only over HTTPS, and --grants defines permissions.
package main

import (
	"context"
	"os"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
)

var program = command.Program{Name: "apiserver", About: `
Apiserver serves namespaces and their content to kubectl and client-go, and deletes the
content of deleted namespaces. It keeps everything in a file, in memory, in etcd or in
PostgreSQL.

    go run ./examples/apiserver --write-kubeconfig ~/.kube/nslifecycle.yaml
    go run ./examples/apiserver --manifests /etc/manifests --manifests https://example.com/node-7.yaml --node node-7
    kubectl --kubeconfig ~/.kube/nslifecycle.yaml create namespace development
`}

func main() {
	program.Main(func(ctx context.Context, args []string) error { return run(ctx, os.Stdout, os.Stderr, args) })
}
