package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A namespace is created, asked to go, and removed by the write that takes its
// last finalizer.
func ExampleRegistry() {
	ctx := context.Background()
	r, closeAll := exampleRegistry()
	defer closeAll()
	acme, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	fmt.Println(acme.Status.Phase, acme.Spec.Finalizers.Names(), err)

	acme, err = r.Delete(ctx, "acme", namespace.Preconditions{UID: acme.UID})
	fmt.Println(acme.Status.Phase, acme.Spec.Finalizers.Names(), err)

	acme.Spec.Finalizers = acme.Spec.Finalizers.Without("kubernetes")
	_, err = r.Finalize(ctx, acme)
	fmt.Println("finalized:", err)
	_, err = r.Get(ctx, "acme")
	fmt.Println(err)
	// Output:
	// Active [kubernetes] <nil>
	// Terminating [kubernetes] <nil>
	// finalized: <nil>
	// namespaces "acme" not found
}

// Content comes in through the gate of its namespace, and no longer once the
// namespace is being deleted.
func ExampleContent_Create() {
	ctx := context.Background()
	r, closeAll := exampleRegistry()
	defer closeAll()
	notes, err := r.Content(namespace.ResourceType{Group: "example.com", Name: "notes"})
	if err != nil {
		fmt.Println(err)
		return
	}
	note := func(name string) registry.Object {
		return registry.Object{
			Meta:   namespace.Meta{Name: name},
			Fields: map[string]json.RawMessage{"text": json.RawMessage(`"hello"`)},
		}
	}
	_, err = notes.Create(ctx, "acme", note("early"))
	fmt.Println(err)
	if _, err = r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}}); err != nil {
		fmt.Println(err)
		return
	}
	made, err := notes.Create(ctx, "acme", note("first"))
	fmt.Println(made.APIVersion, made.Kind, made.Namespace, made.Name, string(made.Fields["text"]), err)
	if _, err = r.Delete(ctx, "acme", namespace.Preconditions{}); err != nil {
		fmt.Println(err)
		return
	}
	_, err = notes.Create(ctx, "acme", note("late"))
	fmt.Println(errors.Is(err, namespace.ErrTerminating), err)
	// Output:
	// namespaces "acme" not found
	// example.com/v1 Note acme first "hello" <nil>
	// true notes.example.com "late" is forbidden: unable to create new content in namespace acme because it is being terminated
}

// A list and a watch from its version on see everything once.
func ExampleRegistry_Watch() {
	ctx := context.Background()
	r, closeAll := exampleRegistry()
	defer closeAll()
	list, err := r.List(ctx, registry.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"acme", "globex"} { // before the watch begins
		if _, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := r.Delete(ctx, "acme", namespace.Preconditions{}); err != nil {
		fmt.Println(err)
		return
	}
	for event, err := range r.Watch(ctx, registry.WatchOptions{ResourceVersion: list.ResourceVersion}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if event.Type == registry.Bookmark {
			break // everything that had happened was told
		}
		fmt.Println(event.Type, event.Object.Name, event.Object.Status.Phase)
	}
	// Output:
	// ADDED acme Active
	// ADDED globex Active
	// MODIFIED acme Terminating
}

// The deleter empties a terminating namespace, and refuses any other incarnation of it.
func ExampleRegistry_Deleter() {
	ctx := context.Background()
	r, closeAll := exampleRegistry()
	defer closeAll()
	notes, err := r.Content(namespace.ResourceType{Group: "example.com", Name: "notes"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err = r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err = notes.Create(ctx, "acme", registry.Object{Meta: namespace.Meta{Name: "first"}}); err != nil {
		fmt.Println(err)
		return
	}
	acme, err := r.Delete(ctx, "acme", namespace.Preconditions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := r.Deleter(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	target := deleter.Target{Namespace: acme.Name, UID: acme.UID, DeletedAt: acme.DeletionTimestamp.Time}
	_, err = d.Delete(ctx, target, deleter.Report{})
	fmt.Println(err)
	list, err := notes.List(ctx, "acme", registry.ListOptions{})
	fmt.Println(len(list.Items), err)
	// Output:
	// <nil>
	// 0 <nil>
}

// exampleRegistry returns a registry over memory that knows notes.
func exampleRegistry() (*registry.Registry, func()) {
	s, err := memory.New(nil)
	if err != nil {
		panic(err)
	}
	notes := registry.ResourceType{Group: "example.com", Version: "v1", Resource: "notes", Kind: "Note", Namespaced: true}
	r, err := registry.New(s, &registry.Options{Types: []registry.ResourceType{notes}})
	if err != nil {
		panic(err)
	}
	return r, func() {
		_ = r.Close()
		_ = s.Close()
	}
}
