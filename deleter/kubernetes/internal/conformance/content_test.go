package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Content over HTTP conforms to the suite for sources: a custom type, and a built-in one, which
// has another encoding. Types that are deleted as collections conform with a read before each
// request. Types that are deleted one by one need none, however quickly incarnations follow each
// other.
func TestContentConforms(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	all := []string{"list", "delete", "deletecollection", "watch"}
	for _, c := range []struct {
		what        string
		kind        schema.GroupVersionResource
		verbs       []string
		options     kubernetes.Options
		collections bool
		notifies    bool
	}{
		{"collections", widgets, all, kubernetes.Options{Recheck: -1}, true, true},
		{"built-in collections", configMaps, all, kubernetes.Options{Recheck: -1}, true, true},
		{"one by one", widgets, all, kubernetes.Options{OneByOne: true}, false, true},
		{"one by one with old looks", configMaps, all, kubernetes.Options{OneByOne: true, Recheck: time.Hour}, false, true},
		{"no collections", widgets, []string{"list", "delete"}, kubernetes.Options{}, false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			contenttest.Run(t, func(t *testing.T) contenttest.Backend {
				h := start(t, 0)
				b := h.contents(t, c.kind, c.options, c.verbs...)
				b.Collections, b.Notifies = c.collections, c.notifies
				return b
			})
		})
	}
}

// contents returns a backend of one type for the suite, which inspects it through the registry.
func (h *host) contents(t *testing.T, kind schema.GroupVersionResource, o kubernetes.Options, verbs ...string) contenttest.Backend {
	t.Helper()
	var failing atomic.Bool
	config := h.config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &failingTransport{next, &failing} })
	cluster, err := kubernetes.ForConfig(config, &o)
	require.NoError(t, err)
	content, err := cluster.Content(kind, verbs...)
	require.NoError(t, err)
	objects, err := h.registry.Content(namespace.ResourceType{Group: kind.Group, Name: kind.Resource})
	require.NoError(t, err)
	return contenttest.Backend{
		Content: content,
		Seed: func(ctx context.Context, name string, list ...contenttest.Object) (deleter.Target, error) {
			if err := h.fill(ctx, objects, name, list); err != nil {
				return deleter.Target{}, err
			}
			n, err := h.registry.Delete(ctx, name, namespace.Preconditions{})
			return deleter.Target{Namespace: name, UID: n.UID, DeletedAt: n.DeletionTimestamp.Time}, err
		},
		SeedActive: func(ctx context.Context, name string, list ...contenttest.Object) (deleter.Target, error) {
			if err := h.fill(ctx, objects, name, list); err != nil {
				return deleter.Target{}, err
			}
			n, err := h.registry.Get(ctx, name)
			return deleter.Target{Namespace: name, UID: n.UID, DeletedAt: time.Now()}, err
		},
		Names: func(ctx context.Context, target deleter.Target) ([]string, error) {
			return namesOf(ctx, objects, target.Namespace)
		},
		Release: func(ctx context.Context, target deleter.Target, name string) error {
			return release(ctx, objects, target.Namespace, name)
		},
		Fail: func(_ context.Context, fail bool) error {
			failing.Store(fail)
			return nil
		},
		UIDs: true, Views: true,
	}
}

// failingTransport fails every request while it is set to.
type failingTransport struct {
	next    http.RoundTripper
	failing *atomic.Bool
}

func (t *failingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.failing.Load() {
		return nil, errors.New("the network is down")
	}
	return t.next.RoundTrip(r)
}

// fill creates an Active namespace with objects and replaces an existing one.
func (h *host) fill(ctx context.Context, objects *registry.Content, name string, list []contenttest.Object) error {
	if err := h.remove(ctx, objects, name); err != nil {
		return err
	}
	var n namespace.Namespace
	n.Name = name
	if _, err := h.registry.Create(ctx, n); err != nil {
		return err
	}
	for _, o := range list {
		var made registry.Object
		made.Name = o.Name
		for _, f := range o.Finalizers {
			made.Finalizers = made.Finalizers.With(finalizer.Name(f))
		}
		if _, err := objects.Create(ctx, name, made); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a namespace with everything in it, if it exists.
func (h *host) remove(ctx context.Context, objects *registry.Content, name string) error {
	n, err := h.registry.Delete(ctx, name, namespace.Preconditions{})
	if errors.Is(err, namespace.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := namesOf(ctx, objects, name)
	if err != nil {
		return err
	}
	for _, object := range names {
		if _, err := objects.Delete(ctx, name, object, namespace.Preconditions{}); err != nil {
			return err
		}
		if err := release(ctx, objects, name, object); err != nil && !errors.Is(err, namespace.ErrNotFound) {
			return err
		}
	}
	n.Spec.Finalizers = finalizer.Set{}
	if _, err := h.registry.Finalize(ctx, n); err != nil {
		return fmt.Errorf("finalize %s: %w", name, err)
	}
	return nil
}

func namesOf(ctx context.Context, objects *registry.Content, ns string) ([]string, error) {
	list, err := objects.List(ctx, ns, registry.ListOptions{})
	names := []string{}
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	return names, err
}

func release(ctx context.Context, objects *registry.Content, ns, name string) error {
	o, err := objects.Get(ctx, ns, name)
	if err != nil {
		return err
	}
	o.Finalizers = finalizer.Set{}
	_, err = objects.Update(ctx, ns, o)
	return err
}
