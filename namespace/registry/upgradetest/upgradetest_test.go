package upgradetest_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry/upgradetest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// kept is a store that stays open when a version closes it.
type kept struct{ store.Store }

func (kept) Close() error { return nil }

func TestR7_RollingUpgradeInMemory(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	defer s.Close()
	upgradetest.Run(t, upgradetest.Options{Open: func(context.Context) (store.Store, error) { return kept{s}, nil }})
}

func TestR7_RollingUpgradeOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "service.db")
	upgradetest.Run(t, upgradetest.Options{InTurn: true, Open: func(context.Context) (store.Store, error) { return bolt.Open(path, nil) }})
}
