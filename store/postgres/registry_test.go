package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/namespace/registry/upgradetest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// A registry over this store keeps the promises that a controller relies on.
func TestRegistryConforms(t *testing.T) {
	t.Parallel()
	server(t)
	controllertest.Run(t, func(t *testing.T) controllertest.Backend {
		s, _ := openNew(t, nil)
		r, err := registry.New(s, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		return controllertest.Backend{
			Namespaces: r,
			Create:     r.Create,
			Delete: func(ctx context.Context, name string) error {
				_, err := r.Delete(ctx, name, namespace.Preconditions{})
				return err
			},
			Forget: func(ctx context.Context) error {
				page, err := s.List(ctx, store.Query{Prefix: "/", Limit: 1})
				if err != nil {
					return err
				}
				return s.Compact(ctx, page.Position.Revision)
			},
		}
	})
}

var notes = registry.Type{Group: "example.com", Version: "v1", Resource: "notes", Kind: "Note", Namespaced: true}

// newRegistry returns a registry over a handle of its own, as a replica has.
func newRegistry(t *testing.T, dsn, schema string) *registry.Registry {
	r, err := registry.New(openAt(t, dsn, schema, nil), &registry.Options{Types: []registry.Type{notes}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// life creates and deletes a namespace while other clients create content in it.
func life(ctx context.Context, r, other *registry.Registry, name string) error {
	n, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	errs := make([]error, 2)
	for i, r := range []*registry.Registry{r, other} {
		content, err := r.Content(notes.Name())
		if err != nil {
			return err
		}
		write := func(k int) error {
			_, err := content.Create(ctx, name, registry.Object{
				Meta:   namespace.Meta{Name: fmt.Sprintf("note-%d-%d", i, k)},
				Fields: map[string]json.RawMessage{"text": json.RawMessage(`"x"`)},
			})
			return err
		}
		if err := write(0); err != nil { // there is something to delete, however the race ends
			return err
		}
		running.Go(func() {
			for k := 1; errs[i] == nil; k++ {
				errs[i] = write(k)
			}
		})
	}
	deleted, err := other.Delete(ctx, name, namespace.Preconditions{UID: n.UID})
	running.Wait()
	if err := errors.Join(err, unless(namespace.ErrTerminating, errs[0]), unless(namespace.ErrTerminating, errs[1])); err != nil {
		return err
	}
	empty, err := r.Deleter(nil)
	if err != nil {
		return err
	}
	target := deleter.Target{Namespace: name, UID: deleted.UID, DeletedAt: deleted.DeletionTimestamp.Time}
	if _, err := empty.Delete(ctx, target, deleter.Report{}); err != nil {
		return err
	}
	_, err = r.Finalize(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name, UID: n.UID}})
	return err
}

func unless(expected, err error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return fmt.Errorf("instead of %q: %w", expected, err)
}

// Two replicas take namespaces through their lives; every single commit keeps the
// rules.
func TestRegistryKeepsTheRulesOverTwoReplicas(t *testing.T) {
	t.Parallel()
	dsn, schema := server(t).DSN("postgres"), newSchema()
	a, b := newRegistry(t, dsn, schema), newRegistry(t, dsn, schema)
	s := openAt(t, dsn, schema, nil)
	start := store.Position{Epoch: epochOf(t, s)}
	var running sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		running.Go(func() {
			for k := range 5 {
				one, two := a, b
				if k%2 == 1 {
					one, two = b, a
				}
				errs[i] = errors.Join(errs[i], life(t.Context(), one, two, fmt.Sprintf("ns-%d-%d", i, k)))
			}
		})
	}
	running.Wait()
	require.NoError(t, errors.Join(errs...))
	page, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2, "every namespace is removed")
	require.Equal(t, "/registry/.format", page.Entries[0].Key)
	require.Equal(t, "/registry/.types/notes.example.com", page.Entries[1].Key)
	require.NoError(t, registrytest.Check(t.Context(), s, "registry"))
	require.NoError(t, registrytest.Audit(t.Context(), s, "registry", start, page.Position.Revision))
	// Of each life at least: creation, two notes, deletion, their end, finalize.
	require.GreaterOrEqual(t, page.Position.Revision, store.Revision(20*6))
}

func TestR7_RollingUpgrade(t *testing.T) {
	t.Parallel()
	dsn, schema := server(t).DSN("postgres"), newSchema()
	upgradetest.Run(t, upgradetest.Options{Open: func(ctx context.Context) (store.Store, error) { return postgres.Open(ctx, dsn, schema, nil) }})
}
