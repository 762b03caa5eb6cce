package explain_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// From DELETE to removal, beside a controller.
func TestExplainerBesideAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		host := new(controllertest.Host)
		recorder := explain.NewRecorder()
		broken := errors.New("connection refused")
		var mended atomic.Bool
		d, err := deleter.New([]deleter.Source{{Resource: widgets, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) {
			if mended.Load() {
				return 0, nil
			}
			return 0, broken
		}}.Content()}}, nil)
		require.NoError(t, err)
		c, err := controller.New(host, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{Hooks: []controller.Hooks{recorder.Hooks(finalizer.Kubernetes)}})
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()

		asked := 0
		e := explain.New(host, &explain.Options{
			Recorder: recorder,
			Parties:  func(context.Context) ([]parties.Party, error) { asked++; return nil, broken },
			Records:  func(context.Context, string) ([]audit.Record, error) { asked++; return nil, broken },
		})
		ask := func() explain.Diagnosis {
			t.Helper()
			synctest.Wait()
			d, err := e.Explain(ctx, "shop")
			require.NoError(t, err, "what is optional may fail")
			return d
		}
		require.Equal(t, explain.NotFound, ask().Causes[0].Kind)
		_, err = host.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "shop"}})
		require.NoError(t, err)
		require.Equal(t, explain.NotTerminating, ask().Causes[0].Kind)
		_, err = host.Delete(ctx, "shop")
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)

		got := ask()
		require.Equal(t, []explain.Kind{explain.SourceFailed}, kinds(got), got.Text())
		require.Equal(t, "shop is stuck: widgets.example.com fails: empty: connection refused", got.Summary)
		require.NotNil(t, got.Next)
		require.True(t, got.Next.At.After(time.Now()))
		require.Equal(t, "failed", got.Next.Reason)
		require.Equal(t, []string{
			"the owners of its finalizers could not be listed: connection refused", "the audit records could not be read: connection refused",
		}, got.Notes)
		require.Contains(t, got.Text(), "NOTES\n  the owners of its finalizers")
		require.Equal(t, got.Progress.Passes, got.Failures[0].Count)
		require.Len(t, got.Passes, min(32, got.Progress.Passes))

		mended.Store(true)
		time.Sleep(2 * time.Minute)
		got = ask()
		require.Equal(t, []explain.Kind{explain.Gone}, kinds(got))
		require.Contains(t, got.Summary, "it was removed")
		require.Equal(t, 7, asked, "the first two explanations share a list of parties")
		stop()
		require.NoError(t, <-ended)
	})
}

// An empty list of parties differs from an unknown one.
func TestExplainerWithoutParties(t *testing.T) {
	host := new(controllertest.Host)
	_, err := host.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "shop"}, Spec: namespace.Spec{Finalizers: finalizer.NewSet(origin)}})
	require.NoError(t, err)
	_, err = host.Delete(t.Context(), "shop")
	require.NoError(t, err)
	e := explain.New(host, &explain.Options{Parties: func(context.Context) ([]parties.Party, error) { return nil, nil }})
	d, err := e.Explain(t.Context(), "shop")
	require.NoError(t, err)
	require.True(t, d.Holders[0].Asked)
	require.Contains(t, d.Text(), "openshift.com/origin: owner never announced itself")
}

// The record of a force is shown with its inventory.
func TestExplainerReadsTheInventory(t *testing.T) {
	host := new(controllertest.Host)
	full := forced()[0]
	bare := full
	bare.Inventory = nil
	// The force that counts is not the last that began.
	list := []audit.Record{bare, {ID: "r1b", Action: audit.Forcing, UID: "u-1"}, forced()[1], {ID: "r3", Action: audit.Refused, UID: "u-1", Follows: "r1b"}}
	e := explain.New(host, &explain.Options{
		Records: func(context.Context, string) ([]audit.Record, error) { return list, nil },
		Record: func(_ context.Context, name, id string) (audit.Record, error) {
			require.Equal(t, []string{"shop", "r1"}, []string{name, id})
			return full, nil
		},
	})
	d, err := e.Explain(t.Context(), "shop")
	require.NoError(t, err)
	require.Contains(t, d.Causes[0].Detail, "2 of pods (a, b)")
	require.Nil(t, list[0].Inventory, "the list is another's")

	d, err = e.Summarize(t.Context(), "shop")
	require.NoError(t, err)
	require.NotContains(t, d.Causes[0].Detail, "pods", "a summary reads no inventory")
	require.Empty(t, d.Notes)
}

// An explanation that waits for another one's list of parties ends with its own context.
func TestExplainerKeepsToItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := explain.New(new(controllertest.Host), &explain.Options{Parties: func(context.Context) ([]parties.Party, error) { <-release; return nil, nil }})
		go func() { _, _ = e.Explain(t.Context(), "shop") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d, err := e.Explain(ctx, "shop")
		require.NoError(t, err)
		require.Equal(t, []string{"the owners of its finalizers could not be listed: context deadline exceeded"}, d.Notes)
		close(release)
	})
}

func TestExplainerBadInput(t *testing.T) {
	host := new(controllertest.Host)
	broken := errors.New("broken")
	failing := &controllertest.Intercept{Namespaces: host, Before: func(context.Context, controllertest.Op, string) error { return broken }}
	d, err := explain.New(failing, nil).Explain(t.Context(), "shop")
	require.ErrorIs(t, err, broken)
	require.Zero(t, d)
	for _, name := range []string{"", "..", "a/b", "\xff", string(make([]byte, 1000))} {
		d, err := explain.New(host, nil).Explain(t.Context(), name)
		require.NoError(t, err, "a name that cannot exist is one that does not")
		require.Equal(t, []explain.Kind{explain.NotFound}, kinds(d))
	}
}

// If the namespace cannot be read, the diagnosis uses its record, and says so.
func TestExplainerWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("disk full")
		place := &controllertest.Intercept{Namespaces: new(controllertest.Host), Before: func(context.Context, controllertest.Op, string) error { return down }}
		r := explain.NewRecorder()
		h := r.Hooks(finalizer.Kubernetes)
		passed(h, shop, pass.Failed, nil, deleter.Report{Failed: &pass.StorageError{Err: down}, Results: counted(pods, 0, 3, 3).Results})
		h.Retried(shop, time.Minute, controller.ReasonFailed)
		begun := complete()[0]
		e := explain.New(place, &explain.Options{
			Recorder: r,
			Records:  func(context.Context, string) ([]audit.Record, error) { return []audit.Record{begun}, nil },
		})
		d, err := e.Explain(t.Context(), "shop")
		require.NoError(t, err)
		require.Equal(t, []explain.Kind{explain.StorageFailed, explain.Stopping}, kinds(d), "whether that was forced is not known")
		require.Equal(t, phase.Terminating, d.Phase)
		require.Equal(t, "u-1", d.UID)
		require.Equal(t, []string{"the namespace could not be read, this is its last recorded state: disk full"}, d.Notes)

		_, err = e.Explain(t.Context(), "other")
		require.ErrorIs(t, err, down, "of which nothing was recorded")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = e.Explain(ctx, "shop")
		require.Error(t, err)
		h.Removed(shop)
		_, err = e.Explain(t.Context(), "shop")
		require.ErrorIs(t, err, down, "what is there now is not known")
		require.Contains(t, diagnose(input{Name: "shop", Unread: errors.New("disk full"), Now: now}).Text(), "namespace shop: unreadable\n")
	})
}

// On a host that ignores annotations, protections are a note and not a cause.
func TestUnguarded(t *testing.T) {
	key, value, err := declare.Protection{Name: "legal", Owner: "law", Reason: "contract"}.Annotation()
	require.NoError(t, err)
	ns := namespace.Namespace{Meta: namespace.Meta{Name: "shop", UID: "u", Annotations: map[string]string{key: value}}}
	notes := []string{"something"}
	d := diagnose(input{Namespace: ns, Notes: notes, Unguarded: true, Now: time.Now()})
	require.Equal(t, explain.NotTerminating, d.Causes[0].Kind)
	require.Equal(t, []string{"something", "the host of the namespace does not enforce the protections and the hold in its annotations"}, d.Notes)
	d = diagnose(input{Namespace: ns, Now: time.Now()})
	require.Equal(t, explain.Protected, d.Causes[0].Kind)
}
