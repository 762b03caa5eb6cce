package replicas_test

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace/members/replicas"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// Two replicas of one group assign one owner to each name. Here they share one process and
// an in-memory store. In production each process has one replica.
func Example() {
	s, err := memory.New(nil)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	var both []*replicas.Replica
	for _, label := range []string{"one", "two"} {
		r, err := replicas.New(s, "example.com/tenants", &replicas.Options{Label: label})
		if err != nil {
			panic(err)
		}
		both = append(both, r)
		go func() { ended <- r.Run(ctx) }()
	}
	for _, r := range both { // until each replica has seen the other
		for changed := r.Changed(); len(r.Members()) < 2; changed = r.Changed() {
			<-changed
		}
	}
	for _, name := range []string{"acme", "globex", "initech"} {
		fmt.Println(name, "has one owner:", both[0].Owns(name) != both[1].Owns(name))
	}
	cancel()
	fmt.Println("left:", <-ended, <-ended)
	// Output:
	// acme has one owner: true
	// globex has one owner: true
	// initech has one owner: true
	// left: <nil> <nil>
}
