package registry_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const widgetsRecord = "/registry/.types/widgets.example.com"

// callCounter counts the calls that a registry makes.
type callCounter struct {
	store.Store
	gets, commits atomic.Int32
	race          func() // before the next commit that creates content
}

func (s *callCounter) Get(ctx context.Context, key string) (store.Entry, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, key)
}

func (s *callCounter) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	s.commits.Add(1)
	if race := s.race; race != nil {
		s.race = nil
		race()
	}
	return s.Store.Commit(ctx, txn)
}

// The first create of a namespaced type puts its record in the same commit. Further ones
// hold it, and read nothing. Each process reads it once. Cluster-scoped types and dry runs
// put none.
func TestR7_TypesAreRecorded(t *testing.T) {
	m, err := memory.New(nil)
	require.NoError(t, err)
	s := &callCounter{Store: m}
	e, other := newEnvOver(t, s), newEnvOver(t, s)
	record := func() (store.Entry, error) { return m.Get(t.Context(), widgetsRecord) }
	e.create("x")
	e.put(nodes, "", object("n"))
	dry, err := e.DryRun().Content(widgets)
	require.NoError(t, err)
	_, err = dry.Create(t.Context(), "x", object("a"))
	require.NoError(t, err)
	_, err = e.content(widgets).Create(t.Context(), "nowhere", object("a"))
	require.ErrorIs(t, err, namespace.ErrNotFound)
	_, err = record()
	require.ErrorIs(t, err, store.ErrNotFound)

	a := e.put(widgets, "x", object("a"))
	entry, err := record()
	require.NoError(t, err)
	made, err := m.Get(t.Context(), "/registry/widgets.example.com/x/a")
	require.NoError(t, err)
	require.Equal(t, made.Revision, entry.Revision, "one commit")
	require.Equal(t, "active", string(entry.Value))
	require.NotEmpty(t, a.UID)

	for i, r := range []*env{e, other, other} {
		s.gets.Store(0)
		s.commits.Store(0)
		r.put(widgets, "x", registry.Object{Meta: namespace.Meta{GenerateName: "b-"}})
		require.EqualValues(t, 1, s.commits.Load(), "create %d", i)
		require.EqualValues(t, []int{0, 2, 0}[i], s.gets.Load(), "create %d: the record and the gate are read once", i)
	}
	again, err := record()
	require.NoError(t, err)
	require.Equal(t, entry.Revision, again.Revision, "it is not written again")
}

// A create goes by the record as it is when it commits, whatever the process remembers.
func TestR7_CreateFollowsTheRecord(t *testing.T) {
	m, err := memory.New(nil)
	require.NoError(t, err)
	s := &callCounter{Store: m}
	e, other := newEnvOver(t, s), newEnvOver(t, m)
	e.create("x")
	write := func(op store.Operation) func() {
		return func() {
			_, err := m.Commit(t.Context(), store.Txn{Do: []store.Operation{op}})
			require.NoError(t, err)
		}
	}
	for _, row := range []struct {
		name string
		race func()
		puts bool
	}{
		{"nothing", func() {}, true},
		{"another process puts it", func() { other.put(widgets, "x", object("other")) }, false},
		{"it is being retired", write(store.Put(widgetsRecord, []byte("retiring"))), true},
		{"the retirement was given up", write(store.Put(widgetsRecord, []byte("active"))), false},
		{"it is retired", write(store.Delete(widgetsRecord)), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.name == "another process puts it" {
				write(store.Delete(widgetsRecord))()
			}
			s.race = row.race
			made := e.put(widgets, "x", registry.Object{Meta: namespace.Meta{GenerateName: "a-"}})
			record, err := m.Get(t.Context(), widgetsRecord)
			require.NoError(t, err)
			require.Equal(t, "active", string(record.Value))
			entry, err := m.Get(t.Context(), "/registry/widgets.example.com/x/"+made.Name)
			require.NoError(t, err)
			require.Equal(t, row.puts, record.Revision == entry.Revision)
		})
	}
}
