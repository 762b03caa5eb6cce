package plan_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/plan"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// A plan predicts the deletion of a namespace.
func ExampleOf() {
	ctx := context.Background()
	s := must(memory.New(nil))
	defer s.Close()
	r := must(registry.New(s, &registry.Options{Types: types}))
	defer r.Close()

	key, value, err := declare.Protection{Name: "legal", Owner: "ada", Reason: "contract until May"}.Annotation()
	if err != nil {
		log.Fatal(err)
	}
	must(r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "team-a", Annotations: map[string]string{key: value}}}))
	for _, name := range []string{"prices", "settings"} {
		must(must(r.Content(configmaps)).Create(ctx, "team-a", registry.Object{Meta: namespace.Meta{Name: name}}))
	}
	must(must(r.Content(widgets)).Create(ctx, "team-a", registry.Object{
		Meta: namespace.Meta{Name: "press", Finalizers: finalizer.NewSet("example.com/disks")},
	}))

	content := must(r.Deleter(nil))
	fmt.Print(must(plan.Of(ctx, r, content, "team-a", nil)).Text())
	// Output:
	// namespace team-a cannot be deleted now; it has 3 objects of 2 types
	//   refused:     namespaces "team-a" is forbidden: deletion is protected by legal
	//                (owner ada: contract until May); remove the annotation
	//                protection.nslifecycle.io/legal first
	//   protected:   legal (owner ada: contract until May)
	//   finalizers:  kubernetes
	//
	// TYPE                 OBJECTS  HELD BY                SAMPLE
	// configmaps           2        -                      prices, settings
	// widgets.example.com  1        example.com/disks (1)  press
	//
	// 1 type without objects
}
