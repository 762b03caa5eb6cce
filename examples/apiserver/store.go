package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/etcd"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// place is where everything goes in a store that others use too.
const place = "nslifecycle_apiserver"

// open opens the store: the only lines that know the drivers.
func (c config) open(ctx context.Context) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	switch c.store {
	case kindBolt:
		if err := command.Dir(c.data); err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		s, err := opened(bolt.Open(filepath.Join(c.data, "namespaces.db"), &bolt.Options{Wait: c.wait}))
		return s, command.Opening(c.data, err)
	case kindMemory:
		return opened(memory.New(nil))
	case kindEtcd:
		s, err := opened(etcd.Open(ctx, strings.Split(c.endpoints, ","), "/"+place, nil))
		return s, command.About("--endpoints", err)
	case kindPostgres:
		s, err := opened(postgres.Open(ctx, c.dsn, place, nil))
		return s, command.About("--dsn", err)
	}
	return nil, fmt.Errorf("there is no store %q", c.store)
}

// opened keeps a nil pointer from becoming a store.
func opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
