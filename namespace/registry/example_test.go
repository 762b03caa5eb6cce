package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A namespace is created, deleted, and removed by the write that takes its last finalizer.
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

// Content can be created until its namespace is deleted.
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
			break // all past events were delivered
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

// exampleRegistry returns a registry in memory with the type notes.
func exampleRegistry() (*registry.Registry, func()) {
	s, err := memory.New(nil)
	if err != nil {
		panic(err)
	}
	notes := registry.Type{Group: "example.com", Version: "v1", Resource: "notes", Kind: "Note", Namespaced: true}
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{notes}})
	if err != nil {
		panic(err)
	}
	return r, func() {
		_ = r.Close()
		_ = s.Close()
	}
}

// allowance is an admission plugin that limits the notes of a namespace. It updates the
// count in the commit that creates or deletes notes, so the count is exact under
// concurrency.
type allowance struct{}

var (
	notes      = namespace.ResourceType{Group: "example.com", Name: "notes"}
	allowances = namespace.ResourceType{Group: "example.com", Name: "allowances"}
)

func (allowance) Admit(ctx context.Context, w *registry.Write) error {
	if len(w.Objects) == 0 || w.Objects[0].Type.Name() != notes {
		return nil
	}
	delta := 0
	for _, o := range w.Objects {
		switch {
		case o.Old == nil: // created
			delta++
		case o.New == nil: // removed
			delta--
		}
	}
	allowed, err := w.Get(ctx, allowances, "notes")
	if err != nil {
		return err
	}
	var spec, status struct{ Notes int }
	if err := json.Unmarshal(allowed.Fields["spec"], &spec); err != nil {
		return err
	}
	if used := allowed.Fields["status"]; used != nil {
		if err := json.Unmarshal(used, &status); err != nil {
			return err
		}
	}
	if status.Notes += delta; delta > 0 && status.Notes > spec.Notes {
		return fmt.Errorf("only %d notes are allowed", spec.Notes)
	}
	updated := allowed.DeepCopy()
	if updated.Fields["status"], err = json.Marshal(status); err != nil {
		return err
	}
	return w.Replace(allowed, updated)
}

func ExampleAdmission() {
	ctx := context.Background()
	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := registry.New(s, &registry.Options{
		Types: []registry.Type{
			{Group: "example.com", Version: "v1", Resource: "notes", Kind: "Note", Namespaced: true},
			{Group: "example.com", Version: "v1", Resource: "allowances", Kind: "Allowance", Namespaced: true, Status: true},
		},
		Admission: []registry.Admission{allowance{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	content := func(resource namespace.ResourceType) *registry.Content {
		c, err := r.Content(resource)
		if err != nil {
			fmt.Println(err)
		}
		return c
	}
	if _, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}}); err != nil {
		fmt.Println(err)
	}
	two := registry.Object{Meta: namespace.Meta{Name: "notes"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"Notes":2}`)}}
	if _, err := content(allowances).Create(ctx, "acme", two); err != nil {
		fmt.Println(err)
	}
	create := func(name string) {
		_, err := content(notes).Create(ctx, "acme", registry.Object{Meta: namespace.Meta{Name: name}})
		fmt.Println(name+":", err)
	}
	create("a")
	create("b")
	create("c")
	if _, err := content(notes).Delete(ctx, "acme", "a", namespace.Preconditions{}); err != nil {
		fmt.Println(err)
	}
	create("c")
	used, err := content(allowances).Get(ctx, "acme", "notes")
	fmt.Println(string(used.Fields["status"]), err)
	// Output:
	// a: <nil>
	// b: <nil>
	// c: notes.example.com "c" is forbidden: only 2 notes are allowed
	// c: <nil>
	// {"Notes":2} <nil>
}

// A namespace that has a grace is put on hold by its deletion, and can be restored.
func ExampleRegistry_Restore() {
	ctx := context.Background()
	r, closeAll := exampleRegistry()
	defer closeAll()
	_, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{
		Name: "acme", Annotations: map[string]string{declare.GraceAnnotation: "24h"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	acme, err := r.Delete(ctx, "acme", namespace.Preconditions{})
	hold, onHold, _ := declare.HoldOf(acme.Meta)
	fmt.Println(acme.Status.Phase, onHold, time.Until(hold.Until) > 23*time.Hour, err)

	acme, err = r.Restore(ctx, "acme", namespace.Preconditions{UID: acme.UID})
	_, onHold, _ = declare.HoldOf(acme.Meta)
	fmt.Println(acme.Status.Phase, onHold, err)
	_, err = r.Restore(ctx, "acme", namespace.Preconditions{UID: acme.UID})
	fmt.Println(err)
	// Output:
	// Active true true <nil>
	// Active false <nil>
	// Operation cannot be fulfilled on namespaces "acme": it is not on hold, there is nothing to restore it from
}

// Any namespace can be put on hold until any time. The index of holds has an event for it.
func ExampleRegistry_DeleteAfter() {
	ctx := context.Background()
	r, closeAll := exampleRegistry()
	defer closeAll()
	if _, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}}); err != nil {
		fmt.Println(err)
		return
	}
	weekend := time.Date(2030, 1, 5, 0, 0, 0, 0, time.UTC)
	acme, err := r.DeleteAfter(ctx, "acme", declare.Hold{Until: weekend, By: "ada", Reason: "moved to the new cluster"}, namespace.Preconditions{})
	fmt.Println(acme.Annotations[declare.HoldAnnotation], err)
	for event, err := range r.Holds(ctx, "") {
		if err != nil || event.Type == namespace.EventSynced {
			break
		}
		fmt.Println(event.Name, event.Until, event.UID == acme.UID)
	}
	// Output:
	// {"until":"2030-01-05T00:00:00Z","by":"ada","reason":"moved to the new cluster"} <nil>
	// acme 2030-01-05 00:00:00 +0000 UTC true
}

// A server returns stored JSON, and encodes a change once for all watchers.
func ExampleContent_ListJSON() {
	s, err := memory.New(nil)
	if err != nil {
		panic(err)
	}
	defer s.Close()
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{{Version: "v1", Resource: "nodes", Kind: "Node"}}})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	nodes, err := r.Content(r.Types()[0].Name())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for _, name := range []string{"a", "b", "c"} {
		o := registry.Object{Meta: namespace.Meta{Name: name}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"size": 1}`)}}
		if _, err := nodes.Create(ctx, "", o); err != nil {
			panic(err)
		}
	}
	page, err := nodes.ListJSON(ctx, "", registry.ListOptions{Limit: 1})
	if err != nil {
		panic(err)
	}
	var first struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(page.Items[0], &first); err != nil {
		panic(err)
	}
	fmt.Printf("%s, and %d more\n", first.Spec, *page.RemainingItemCount)

	for event, err := range nodes.Watch(ctx, "", registry.WatchOptions{ResourceVersion: page.ResourceVersion, Shared: true}) {
		if err != nil {
			panic(err)
		}
		frame, err := event.Encoded("type", func(e registry.Event[registry.Object]) ([]byte, error) {
			return json.Marshal(map[string]string{"type": e.Type.String()})
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", frame)
		break // this was the bookmark: nothing has happened since the list
	}
	// Output:
	// {"size":1}, and 2 more
	// {"type":"BOOKMARK"}
}
