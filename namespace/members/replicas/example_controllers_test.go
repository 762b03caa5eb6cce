package replicas_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// Two controllers of one party divide the namespaces, so each namespace has one pass, not
// two. In production each controller runs in its own process, on a shared store.
func Example_controllers() {
	s, err := memory.New(nil)
	check(err)
	r, err := registry.New(s, nil)
	check(err)
	documents := namespace.ResourceType{Group: "example.com", Name: "documents"}
	d, err := deleter.New([]deleter.Source{{Resource: documents, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (remaining int, err error) { return 0, nil }}.Content()}}, nil)
	check(err)
	party := namespace.Party{Finalizer: finalizer.Kubernetes}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var passes atomic.Int64
	finalized := make(chan string)
	var both []*replicas.Replica
	for range 2 {
		replica, err := replicas.New(s, string(party.Finalizer), nil)
		check(err)
		go func() { check(replica.Run(ctx)) }()
		hooks := controller.Hooks{
			PassEnded: func(context.Context, namespace.Ref, pass.Result, error, time.Duration) { passes.Add(1) },
			Finalized: func(ref namespace.Ref) { finalized <- ref.Name },
		}
		c, err := controller.New(r, d, party, &controller.Options{Division: replica, Hooks: []controller.Hooks{hooks}})
		check(err)
		go func() { check(c.Run(ctx)) }()
		both = append(both, replica)
	}
	for _, replica := range both { // until each replica has seen the other
		for changed := replica.Changed(); len(replica.Members()) < 2; changed = replica.Changed() {
			<-changed
		}
	}

	const tenants = 6
	for i := range tenants {
		name := fmt.Sprint("tenant-", i)
		_, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
		check(err)
		_, err = r.Delete(ctx, name, namespace.Preconditions{})
		check(err)
	}
	for range tenants {
		<-finalized
	}
	fmt.Println(tenants, "tenants gone, passes:", passes.Load())
	// Output:
	// 6 tenants gone, passes: 6
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
