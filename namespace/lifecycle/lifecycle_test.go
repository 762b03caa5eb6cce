package lifecycle_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// newService returns a service over a new store in memory. The test closes both.
func newService(t *testing.T, opts *lifecycle.Options) *lifecycle.Service {
	t.Helper()
	return serviceOver(t, newStore(t), opts)
}

func newStore(t *testing.T) store.Store {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func serviceOver(t *testing.T, s store.Store, opts *lifecycle.Options) *lifecycle.Service {
	t.Helper()
	service, err := lifecycle.New(s, []registry.Type{invoices}, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	return service
}

// run runs the service until the test ends.
func run(t *testing.T, service *lifecycle.Service) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- service.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-stopped)
	})
}

// The finalizer and the prefix are named once, and content outside of the store holds the namespace
// until it is deleted.
func TestServiceDeletesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token finalizer.Name = "example.com/tenants"
		down := errors.New("bucket is down")
		failing := true
		service := newService(t, &lifecycle.Options{
			Registry: registry.Options{Prefix: "tenants", Finalizer: token},
			Contact:  "storage@example.com",
			Divide:   true,
			Sources: []deleter.Source{{
				Resource: namespace.ResourceType{Name: "files"},
				Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) {
					if failing {
						return 0, down
					}
					return 0, nil
				}}.Content(),
			}},
		})
		run(t, service)
		acme, err := service.Create(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, []finalizer.Name{token}, acme.Spec.Finalizers.Names())
		content, err := lifecycle.NewContent[Invoice](service.Registry(), invoices)
		require.NoError(t, err)
		_, err = content.Create(t.Context(), "acme", lifecycle.Named("one", Invoice{}))
		require.NoError(t, err)

		_, err = service.Delete(t.Context(), "acme")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		stuck, err := service.Registry().Get(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, phase.Terminating, stuck.Phase())
		require.True(t, stuck.Spec.Finalizers.Has(token))
		diagnosis, err := service.Explain(t.Context(), "acme")
		require.NoError(t, err)
		require.NotEmpty(t, diagnosis.Causes)
		require.Contains(t, diagnosis.Text(), down.Error())

		page := httptest.NewRecorder()
		service.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "http://localhost/?format=text", nil))
		require.Equal(t, http.StatusOK, page.Code)
		require.Contains(t, page.Body.String(), "acme")

		failing = false
		require.NoError(t, service.WaitRemoved(t.Context(), acme.Name, acme.UID))
		_, err = service.Registry().Get(t.Context(), "acme")
		require.ErrorIs(t, err, namespace.ErrNotFound)
	})
}

// Two processes that divide the work take over from each other.
func TestServiceDivides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		first := serviceOver(t, s, &lifecycle.Options{Divide: true})
		second := serviceOver(t, s, &lifecycle.Options{Divide: true})
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- first.Run(ctx) }()
		run(t, second)
		time.Sleep(time.Minute)
		stop()
		require.NoError(t, <-stopped)
		for _, name := range []string{"a", "b", "c", "d"} {
			ns, err := second.Create(t.Context(), name)
			require.NoError(t, err)
			_, err = second.Delete(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, second.WaitRemoved(t.Context(), name, ns.UID))
		}
	})
}

// A grace delays the deletion, and the service ends it.
func TestServiceEndsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService(t, nil)
		run(t, service)
		acme, err := service.Registry().Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{
			Name: "acme", Annotations: map[string]string{declare.GraceAnnotation: "24h"},
		}})
		require.NoError(t, err)
		begun := time.Now()
		held, err := service.Delete(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, phase.Active, held.Phase())
		require.NoError(t, service.WaitRemoved(t.Context(), acme.Name, acme.UID))
		require.GreaterOrEqual(t, time.Since(begun), 24*time.Hour)
	})
}

func TestServiceRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService(t, nil)
		run(t, service)
		synctest.Wait()
		require.ErrorIs(t, service.Run(t.Context()), controller.ErrRunning)
	})
}

// A store that is closed ends Run with an error instead of leaving a service that does nothing.
func TestServiceOverAClosedStore(t *testing.T) {
	s := newStore(t)
	service := serviceOver(t, s, &lifecycle.Options{Divide: true})
	require.NoError(t, s.Close())
	require.ErrorIs(t, service.Run(t.Context()), store.ErrClosed)
}

func TestNewRejects(t *testing.T) {
	s := newStore(t)
	files := namespace.ResourceType{Name: "files"}
	empty := deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 0, nil }}.Content()
	for _, tt := range []struct {
		name  string
		store store.Store
		opts  lifecycle.Options
		field string
	}{
		{"no store", nil, lifecycle.Options{}, "store"},
		{"a negative number of workers", s, lifecycle.Options{Controller: controller.Options{Workers: -1}}, "Workers"},
		{"a prefix that is no path", s, lifecycle.Options{Registry: registry.Options{Prefix: "a//b"}}, "refix"},
		{"an invalid finalizer", s, lifecycle.Options{Registry: registry.Options{Finalizer: "Not Valid"}}, "inalizer"},
		{"too few workers for holds", s, lifecycle.Options{Hold: hold.Options{Workers: 1}}, "Workers"},
		{"a contact of two lines", s, lifecycle.Options{Contact: "a\nb"}, "Contact"},
		{"a source without content", s, lifecycle.Options{Sources: []deleter.Source{{Resource: files}}}, "files"},
		{"a source for a stored type", s, lifecycle.Options{Sources: []deleter.Source{{
			Resource: invoices.Name(), Content: empty,
		}}}, "invoices: 2 sources have this type"},
		{"a source after an unknown type", s, lifecycle.Options{Sources: []deleter.Source{{
			Resource: files, Content: empty, After: []namespace.ResourceType{{Name: "invoice"}},
		}}}, "invoice"},
		{"a source after itself", s, lifecycle.Options{Sources: []deleter.Source{{
			Resource: files, Content: empty, After: []namespace.ResourceType{files},
		}}}, "files"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := lifecycle.New(tt.store, []registry.Type{invoices}, &tt.opts)
			require.ErrorContains(t, err, tt.field)
		})
	}
	_, err := lifecycle.New(s, nil, nil)
	require.ErrorIs(t, err, deleter.ErrInvalid, "without content a namespace would never be removed")
}
