package registry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// A namespace that has a grace is put on hold by its deletion, and can be restored.
func ExampleRegistry_Restore() {
	ctx := context.Background()
	r, closeAll := exampleRegistry()
	defer closeAll()
	_, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{
		Name: "acme", Annotations: map[string]string{namespace.GraceAnnotation: "24h"},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	acme, err := r.Delete(ctx, "acme", namespace.Preconditions{})
	hold, onHold, _ := namespace.HoldOf(acme.Meta)
	fmt.Println(acme.Status.Phase, onHold, time.Until(hold.Until) > 23*time.Hour, err)

	acme, err = r.Restore(ctx, "acme", namespace.Preconditions{UID: acme.UID})
	_, onHold, _ = namespace.HoldOf(acme.Meta)
	fmt.Println(acme.Status.Phase, onHold, err)
	_, err = r.Restore(ctx, "acme", namespace.Preconditions{UID: acme.UID})
	fmt.Println(err)
	// Output:
	// Active true true <nil>
	// Active false <nil>
	// Operation cannot be fulfilled on namespaces "acme": it is not on hold, there is nothing to restore it from
}

// Any namespace can be put on hold, until any time. The index of the holds tells of it.
func ExampleRegistry_DeleteAfter() {
	ctx := context.Background()
	r, closeAll := exampleRegistry()
	defer closeAll()
	if _, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}}); err != nil {
		fmt.Println(err)
		return
	}
	weekend := time.Date(2030, 1, 5, 0, 0, 0, 0, time.UTC)
	acme, err := r.DeleteAfter(ctx, "acme", namespace.Hold{Until: weekend, By: "ada", Reason: "moved to the new cluster"}, namespace.Preconditions{})
	fmt.Println(acme.Annotations[namespace.HoldAnnotation], err)
	for event, err := range r.Holds(ctx, "") {
		if err != nil || event.Type == namespace.HoldsSynced {
			break
		}
		fmt.Println(event.Name, event.Until, event.UID == acme.UID)
	}
	// Output:
	// {"until":"2030-01-05T00:00:00Z","by":"ada","reason":"moved to the new cluster"} <nil>
	// acme 2030-01-05 00:00:00 +0000 UTC true
}
