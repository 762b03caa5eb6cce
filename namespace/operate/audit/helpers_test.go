package audit_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func newStore(t testing.TB, o *memory.Options) store.Store {
	t.Helper()
	s, err := memory.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func newLog(t testing.TB, s store.Store) *audit.Log {
	t.Helper()
	l, err := audit.New(s, nil)
	require.NoError(t, err)
	return l
}

func forcing(name string) audit.Record {
	return audit.Record{Action: audit.Forcing, Namespace: name, UID: "u-1", By: "ada", Reason: "the owner is gone",
		Finalizers: []finalizer.Name{"example.com/disks"}}
}

// inventory returns an inventory of n objects, whose names need escapes in JSON.
func inventory(n int) *audit.Inventory {
	i := &audit.Inventory{Failures: []audit.Failure{{Source: "disks.example.com", Text: "connection refused"}}}
	for k := range n {
		i.Objects = append(i.Objects, audit.Object{Resource: "widgets.example.com", Name: fmt.Sprintf("w-%06d-<é>", k), UID: fmt.Sprint(k), Finalizers: []string{"example.com/a"}})
	}
	return i
}
