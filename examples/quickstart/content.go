package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// The two parties of the story, and what each of them keeps in a namespace.
const openshift finalizer.Name = "openshift.com/origin"

var (
	kubernetesTypes = []registry.ResourceType{
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
		{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
		{Version: "v1", Resource: "services", Kind: "Service", Namespaced: true},
	}
	openshiftTypes = []registry.ResourceType{
		{Group: "openshift.com", Version: "v1", Resource: "builds", Kind: "Build", Namespaced: true},
		{Group: "openshift.com", Version: "v1", Resource: "routes", Kind: "Route", Namespaced: true},
	}
	// events is what the intruder tries to create; it is Kubernetes' too.
	events = registry.ResourceType{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}
)

// The archive is one build that a third agent holds by a finalizer of the object
// itself: its owner copies it away before it lets it go.
const (
	archive                  = "builds-0000"
	archivist finalizer.Name = "archive.openshift.com/copy"
)

// fill stores objects objects in the namespace, spread over all types. Names
// follow from numbers, so that what an earlier run stored is found again. It
// returns how many it had to create; stored counts the objects that exist.
func fill(ctx context.Context, r *registry.Registry, ns string, objects, writers int, stored *atomic.Int64) (int, error) {
	types := append(append([]registry.ResourceType(nil), kubernetesTypes...), openshiftTypes...)
	var created atomic.Int64
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range objects {
		if within.Err() != nil {
			break
		}
		t := types[i%len(types)]
		group.Go(func() error {
			o := registry.Object{Fields: map[string]json.RawMessage{"data": json.RawMessage(fmt.Sprintf(`{"number":"%d"}`, i))}}
			o.Name = fmt.Sprintf("%s-%04d", t.Resource, i/len(types))
			if o.Name == archive {
				o.Finalizers = finalizer.NewSet(archivist)
			}
			content, err := r.Content(t.Name())
			if err != nil {
				return err
			}
			_, err = content.Create(within, ns, o)
			if err == nil {
				created.Add(1)
			}
			if err == nil || errors.Is(err, namespace.ErrExists) {
				stored.Add(1)
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return int(created.Load()), err
	}
	return int(created.Load()), context.Cause(ctx)
}

// release takes the archivist's finalizer from the archive, if it is still there.
func release(ctx context.Context, r *registry.Registry, ns string) (bool, error) {
	builds, err := r.Content(namespace.ResourceType{Group: "openshift.com", Name: "builds"})
	if err != nil {
		return false, err
	}
	o, err := builds.Get(ctx, ns, archive)
	if errors.Is(err, namespace.ErrNotFound) || err == nil && !o.Finalizers.Has(archivist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o.Finalizers = o.Finalizers.Without(archivist)
	o.ResourceVersion = "" // whatever else changed in it meanwhile
	_, err = builds.Update(ctx, ns, o)
	if errors.Is(err, namespace.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// remaining counts what is left of the namespace's content.
func remaining(ctx context.Context, r *registry.Registry, ns string) (int, error) {
	n := 0
	for _, t := range r.Types() {
		content, err := r.Content(t.Name())
		if err != nil {
			return 0, err
		}
		list, err := content.List(ctx, ns, registry.ListOptions{})
		if err != nil {
			return 0, err
		}
		n += len(list.Items)
	}
	return n, nil
}
