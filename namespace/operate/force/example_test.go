package force_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/operate/force"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// The owner of a finalizer was uninstalled. An operator drops the finalizer with a reason, and
// then sweeps the recorded objects.
func Example() {
	ctx := context.Background()
	store := must(memory.New(nil))
	defer store.Close()
	widgets := registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}
	r := must(registry.New(store, &registry.Options{Types: []registry.Type{widgets}}))
	defer r.Close()
	content := must(r.Deleter(nil))
	records := must(audit.New(store, nil))

	ns := namespace.Namespace{Meta: namespace.Meta{Name: "team-a"}}
	ns.Spec.Finalizers = finalizer.NewSet("example.com/uninstalled")
	must(r.Create(ctx, ns))
	held := registry.Object{Meta: namespace.Meta{Name: "w", Finalizers: finalizer.NewSet("example.com/uninstalled")}}
	must(must(r.Content(widgets.Name())).Create(ctx, "team-a", held))
	ns = must(r.Delete(ctx, "team-a", namespace.Preconditions{}))

	dropped := must(force.Drop(ctx, r, content, records, force.Request{
		Name: ns.Name, UID: ns.UID, Finalizers: ns.Spec.Finalizers.Names(),
		By: "ada", Reason: "its owner was uninstalled",
	}))
	fmt.Println("dropped:", dropped.Dropped, "removed:", dropped.Removed)
	for _, o := range dropped.Inventory.Objects {
		fmt.Println("left:", o.Resource, o.Name, o.Finalizers)
	}

	swept := must(force.Sweep(ctx, r, r, records, force.SweepRequest{
		Name: ns.Name, ID: dropped.ID, By: "ada", Reason: "it is not needed",
		Release: []finalizer.Name{"example.com/uninstalled"},
	}))
	fmt.Printf("swept: %d of %d\n", swept.Gone, swept.Objects)

	for _, one := range must(records.List(ctx, "team-a")) {
		fmt.Printf("%s by %s (%d objects)\n", one.Action, one.By, one.Objects)
	}
	// Output:
	// dropped: [example.com/uninstalled kubernetes] removed: true
	// left: widgets.example.com w [example.com/uninstalled]
	// swept: 1 of 1
	// forcing by ada (1 objects)
	// forced by ada (0 objects)
	// sweeping by ada (0 objects)
	// swept by ada (0 objects)
}
