package parties_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// An agent announces itself beside its work, and leaves.
func Example() {
	s, err := memory.New(nil)
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	known, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- parties.Announce(ctx, s, "example.com/backups", &parties.Options{
			Label:   "backups-0",
			Contact: "#backups",
			Hooks:   parties.Hooks{Announced: func() { close(known) }},
		})
	}()
	<-known
	show := func() {
		list, err := parties.List(ctx, s, "")
		check(err)
		for _, p := range list {
			fmt.Printf("%s: alive %t, ask %s\n", p.Finalizer, p.Alive, p.Contact)
		}
	}
	show()
	cancel()
	check(<-ended)
	ctx = context.Background()
	show()
	// Output:
	// example.com/backups: alive true, ask #backups
	// example.com/backups: alive false, ask #backups
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
