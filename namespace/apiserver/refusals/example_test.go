package refusals_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/refusals"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func ExampleRecorder() {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := record(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// "User \"alice\" cannot get resource \"secrets\" in API group \"\" in the namespace \"x\""
}

func record(ctx context.Context) error {
	s, err := memory.New(nil)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{
		kinds.Events().Type, kinds.Secrets().Type,
	}})
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "x"}}); err != nil {
		return err
	}
	recorder, err := refusals.New(r, &refusals.Options{Every: time.Millisecond})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = recorder.Run(ctx) }) // the error is the cause of ctx
	defer running.Wait()
	defer stop()

	// The server calls Record if it is set as Hooks.Refused.
	recorder.Record(apiserver.Refusal{
		User:       authorization.User{Name: "alice"},
		Attributes: authorization.Attributes{Verb: "get", Resource: "secrets", Namespace: "x", Name: "s"},
	})

	events, err := r.Content(namespace.ResourceType{Name: "events"})
	if err != nil {
		return err
	}
	for event, err := range events.Watch(ctx, "x", registry.WatchOptions{ResourceVersion: "1"}) {
		if err != nil {
			return err
		}
		if event.Type == registry.Added {
			fmt.Println(string(event.Object.Fields["message"]))
			return nil
		}
	}
	return nil
}
