package deleter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Volumes come after pods. A finalizer holds a pod, so the volumes stay until a later pass.
// Services are independent of both.
func ExampleNew() {
	development := deleter.Target{Namespace: "development", UID: "4f2c", DeletedAt: time.Now()}
	pods, volumes, services := contenttest.NewFake(nil), contenttest.NewFake(nil), contenttest.NewFake(nil)
	pods.Put(development, contenttest.Object{Name: "web", Finalizers: []string{"example.com/drain"}})
	volumes.PutMany(development, "disk", 2)
	services.PutMany(development, "service", 4)

	d, err := deleter.New([]deleter.Source{
		{Resource: namespace.ResourceType{Name: "pods"}, Content: pods, Final: true},
		{Resource: namespace.ResourceType{Name: "volumes"}, Content: volumes, Final: true, After: []namespace.ResourceType{{Name: "pods"}}},
		{Resource: namespace.ResourceType{Name: "services"}, Content: services, Final: true},
	}, nil)
	if err != nil {
		panic(err)
	}
	show := func(report deleter.Report, err error) deleter.Report {
		for _, r := range report.Results {
			fmt.Printf("%s: deleted %d, %d left, held by %v, waiting: %t\n", r.Resource, r.Deleted, r.Remaining, r.Holders, r.Waiting)
		}
		fmt.Printf("empty for good: %v; empty: %t; error: %v\n", report.Clean, report.Empty(), err)
		return report
	}
	ctx := context.Background()
	report := show(d.Delete(ctx, development, deleter.Report{}))
	pods.Release(development, "web")
	if err := d.Wait(ctx, development, report); err != nil {
		panic(err)
	}
	show(d.Delete(ctx, development, report))
	// Output:
	// pods: deleted 1, 1 left, held by [{example.com/drain 1 [web]}], waiting: false
	// services: deleted 4, 0 left, held by [], waiting: false
	// volumes: deleted 0, 0 left, held by [], waiting: true
	// empty for good: [services]; empty: false; error: <nil>
	// pods: deleted 0, 0 left, held by [], waiting: false
	// volumes: deleted 2, 0 left, held by [], waiting: false
	// empty for good: [pods services volumes]; empty: true; error: <nil>
}

func ExampleNew_cycle() {
	content := contenttest.NewFake(nil)
	_, err := deleter.New([]deleter.Source{
		{Resource: namespace.ResourceType{Name: "pods"}, Content: content, After: []namespace.ResourceType{{Name: "volumes"}}},
		{Resource: namespace.ResourceType{Name: "volumes"}, Content: content, After: []namespace.ResourceType{{Name: "pods"}}},
	}, nil)
	fmt.Println(err)
	// Output: the order of sources has a cycle: pods after volumes after pods
}

// A discovery finds only a part of the types. The pass deletes that part and fails.
func ExampleDiscovering() {
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		found := []deleter.Source{{Resource: namespace.ResourceType{Name: "pods"}, Content: contenttest.NewFake(nil)}}
		return found, &deleter.DiscoveryError{Groups: []deleter.GroupError{
			{Group: "metrics.example.com", Err: fmt.Errorf("service unavailable")},
		}}
	}, nil)
	if err != nil {
		panic(err)
	}
	development := deleter.Target{Namespace: "development", UID: "4f2c", DeletedAt: time.Now()}
	report, err := d.Delete(context.Background(), development, deleter.Report{})
	fmt.Println(report.Results[0].Empty(), report.Empty())
	fmt.Println(err)
	// Output:
	// true false
	// metrics.example.com: service unavailable
}
