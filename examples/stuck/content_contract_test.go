package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// TestOutside checks content outside of the registry with the published suite.
func TestOutside(t *testing.T) {
	contenttest.Run(t, func(t *testing.T) contenttest.Backend {
		w, err := newWorld(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.close()) })
		o := newOutside(w.registry)
		active := func(ctx context.Context, name string, objects ...contenttest.Object) (deleter.Target, error) {
			return seed(w, o, name, objects)
		}
		return contenttest.Backend{
			Content:    faulty{o, &behavior{}},
			SeedActive: active,
			Seed: func(ctx context.Context, name string, objects ...contenttest.Object) (deleter.Target, error) {
				if _, err := active(ctx, name, objects...); err != nil {
					return deleter.Target{}, err
				}
				ns, err := w.registry.Delete(ctx, name, namespace.Preconditions{})
				return deleter.Target{Namespace: name, UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time}, err
			},
			Names: func(_ context.Context, target deleter.Target) ([]string, error) {
				page, err := o.page(target.Namespace, 1<<20, "")
				var names []string
				for _, item := range page.Items {
					names = append(names, item.Name)
				}
				return names, err
			},
			UIDs: true, Collections: true, Views: true,
		}
	})
}

// seed recreates a namespace with objects.
func seed(w *world, o *outside, name string, objects []contenttest.Object) (deleter.Target, error) {
	if err := w.delete([]string{name}); err == nil {
		if err := w.letGo([]string{name, string(finalizer.Kubernetes)}); err != nil {
			return deleter.Target{}, err
		}
	} else if !errors.Is(err, namespace.ErrNotFound) {
		return deleter.Target{}, err
	}
	if err := w.create([]string{name}); err != nil {
		return deleter.Target{}, err
	}
	ns, err := w.registry.Get(w.ctx, name)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.objects[name] = nil
	o.put(name, len(objects))
	for i, object := range objects {
		o.objects[name][i].Name = object.Name
	}
	slices.SortFunc(o.objects[name], func(a, b deleter.Item) int { return strings.Compare(a.Name, b.Name) })
	return deleter.Target{Namespace: name, UID: ns.UID, DeletedAt: time.Now()}, err
}
