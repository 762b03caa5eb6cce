package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// asReplica is the first argument of a replica.
const asReplica = "replica"

// The reports of a replica to its parent, one on each line.
const (
	reportPass    = "pass ended"
	reportEmptied = "tenant emptied"
)

var types = []registry.Type{{Group: "example.com", Version: "v1", Resource: "documents", Kind: "Document", Namespaced: true}}

// runReplica runs the service until ctx ends or the parent closes standard input.
func runReplica(ctx context.Context, w io.Writer, dsn, name string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	s, err := open(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	search := deleter.Source{
		Resource: namespace.ResourceType{Name: "search"},
		Final:    true,
		Content: deleter.Funcs{Delete: func(ctx context.Context, _ deleter.Target) (remaining int, err error) {
			return 0, backoff.Sleep(ctx, 200*time.Millisecond) // a slow remote service
		}}.Content(),
	}
	service, err := lifecycle.New(s, types, &lifecycle.Options{
		Divide:  true,
		Sources: []deleter.Source{search},
		Controller: controller.Options{Workers: 4, Hooks: []controller.Hooks{{
			PassEnded: func(context.Context, namespace.Ref, pass.Result, error, time.Duration) { fmt.Fprintln(w, reportPass) },
			Finalized: func(namespace.Ref) { fmt.Fprintln(w, reportEmptied) },
		}}},
		Contact: name,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	return service.Run(ctx)
}

// replica is a replica in a process of its own. The parent's death closes its standard input.
type replica struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	wait   func() error
}

func (c *cluster) start(name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r := &replica{cmd: exec.Command(self, asReplica, c.dsn, name)}
	r.cmd.Stderr = &r.stderr
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.report(name, lines.Text())
		}
	}()
	r.wait = sync.OnceValue(func() error {
		<-read
		if err := r.cmd.Wait(); err != nil {
			return fmt.Errorf("replica %s: %w: %s", name, err, r.stderr.Bytes())
		}
		return nil
	})
	c.replicas[name] = r
	return nil
}

// stop stops the replica gracefully.
func (r *replica) stop() error {
	_ = r.stdin.Close()
	return r.wait()
}

// kill kills the replica with SIGKILL.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.wait()
}
