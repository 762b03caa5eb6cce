package hold_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/hold"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A process that runs the controller of namespaces runs this beside it.
func ExampleRun() {
	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	namespaces, err := registry.New(s, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer namespaces.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ended := make(chan error)
	go func() {
		ended <- hold.Run(ctx, namespaces, &hold.Options{Hooks: hold.Hooks{
			Deleted: func(ref namespace.Ref) {
				fmt.Println("the hold of", ref.Name, "is over")
				cancel()
			},
		}})
	}()
	if _, err := namespaces.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}}); err != nil {
		fmt.Println(err)
		return
	}
	acme, err := namespaces.DeleteAfter(ctx, "acme", declare.Hold{Until: time.Now().Add(10 * time.Millisecond)}, namespace.Preconditions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(acme.Name, "is", acme.Status.Phase)
	fmt.Println("ended:", <-ended)
	acme, err = namespaces.Get(context.Background(), "acme")
	fmt.Println(acme.Name, "is", acme.Status.Phase, err)
	// Output:
	// acme is Active
	// the hold of acme is over
	// ended: <nil>
	// acme is Terminating <nil>
}
