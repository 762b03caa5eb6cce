package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/etcd"
	"github.com/nslifecycle/nslifecycle/store/postgres"
	"github.com/nslifecycle/nslifecycle/store/postgres/pgtest"
)

// The kinds of stores.
const (
	kindEtcd     = "etcd"
	kindPostgres = "postgres"
)

// place is where everything goes in a store: a schema, or the last segment of a prefix.
const place = "nslifecycle_cluster"

// open opens the store: the only lines that know the drivers.
func (b backend) open(ctx context.Context) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	switch b.kind {
	case kindEtcd:
		s, err := opened(etcd.Open(ctx, strings.Split(b.address, ","), "/"+place, nil))
		return s, command.About("--endpoints", err)
	case kindPostgres:
		s, err := opened(postgres.Open(ctx, b.address, place, nil))
		return s, command.About("--dsn", err)
	}
	return nil, fmt.Errorf("there is no store %q", b.kind)
}

// opened keeps a nil pointer from becoming a store.
func opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// errNotFound says that there is no server to start, and what to install.
var errNotFound = errors.New("not found")

// notFound is an error with a text of its own that matches errNotFound.
type notFound struct{ text string }

func (e notFound) Error() string      { return e.text }
func (notFound) Is(target error) bool { return target == errNotFound }

// starters start a server of a kind.
var starters = map[string]func(context.Context, config) (running, error){
	kindEtcd:     startEtcd,
	kindPostgres: startPostgres,
}

func startPostgres(ctx context.Context, _ config) (running, error) {
	server, err := pgtest.Start(ctx, nil)
	if errors.Is(err, pgtest.ErrNotInstalled) {
		return running{}, notFound{err.Error()}
	}
	if err != nil {
		return running{}, err
	}
	return running{
		backend: backend{kindPostgres, server.DSN("postgres")},
		about:   "started PostgreSQL at " + server.Addr(),
		stop:    server.Stop,
	}, nil
}

func startEtcd(ctx context.Context, c config) (running, error) {
	program := c.etcd
	if program == "" {
		var err error
		if program, err = exec.LookPath("etcd"); err != nil {
			return running{}, notFound{"no etcd found: install version 3.5.13 or later (Debian: apt-get install etcd-server), or name its program by --etcd"}
		}
	}
	var r running
	var err error
	for range 5 { // a port that was free may be taken by somebody else meanwhile
		if r, err = launchEtcd(ctx, program); !errors.Is(err, errEnded) {
			break
		}
	}
	return r, err
}

// errEnded says that a server ended instead of serving.
var errEnded = errors.New("etcd ended instead of serving")

func launchEtcd(ctx context.Context, program string) (running, error) {
	dir, err := os.MkdirTemp("", "cluster-etcd-")
	if err != nil {
		return running{}, err
	}
	remove := func(err error) (running, error) { return running{}, errors.Join(err, os.RemoveAll(dir)) }
	client, peer, err := freeAddresses(ctx)
	if err != nil {
		return remove(err)
	}
	cmd := exec.Command(program, "--data-dir", filepath.Join(dir, "data"), "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe() // wrappers of etcd end with their input
	if err != nil {
		return remove(err)
	}
	ended, err := start(cmd)
	if err != nil {
		return remove(err)
	}
	stop := func() error {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		_ = stdin.Close()
		return os.RemoveAll(dir)
	}
	if err := healthy(ctx, client, ended); err != nil {
		err = errors.Join(err, stop())
		return running{}, fmt.Errorf("%w\n%s", err, output.String())
	}
	return running{backend: backend{kindEtcd, client}, about: "started etcd at " + client, stop: stop}, nil
}

// freeAddresses returns two addresses of loopback that nobody listens on.
func freeAddresses(ctx context.Context) (one, other string, err error) {
	var urls []string
	for range 2 {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close() // both at the end, so that they differ
		urls = append(urls, "http://"+l.Addr().String())
	}
	return urls[0], urls[1], nil
}

// healthy waits until etcd serves.
func healthy(ctx context.Context, url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close() // only the status counts
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("etcd does not serve: %w", context.Cause(ctx))
		}
	}
}

// start starts cmd so that it ends with this process, and returns a channel that is
// closed when it has ended. What ends it is tied to the thread that started it, so
// that stays until then.
func start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	endWithParent(cmd)
	over, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // a thread that ended would end other children of it, too
		defer close(over)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in cmd.ProcessState
		}
	}()
	return over, <-started
}
