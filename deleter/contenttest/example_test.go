package contenttest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// A Fake stands for real content in a test, here with an object that something holds.
func ExampleFake() {
	pods := contenttest.NewFake(nil)
	target := deleter.Target{Namespace: "acme", UID: "1", DeletedAt: time.Now()}
	pods.PutMany(target, "pod", 2)
	pods.Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/backup"}})

	d, err := deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "pods"}, Content: pods}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Delete(context.Background(), target, deleter.Report{})
	fmt.Println(report.Remaining(), "left:", pods.Names(target), err)

	pods.Release(target, "held")
	report, err = d.Delete(context.Background(), target, report)
	fmt.Println(report.Remaining(), "left", err)
	// Output:
	// 1 left: [held] <nil>
	// 0 left <nil>
}

// A source whose database is out of order for a while.
func ExampleFakeOptions() {
	failures := 1
	pods := contenttest.NewFake(&contenttest.FakeOptions{Fault: func(_ context.Context, call contenttest.Call) error {
		if failures--; failures >= 0 {
			return fmt.Errorf("connection refused")
		}
		return nil
	}})
	target := deleter.Target{Namespace: "acme", UID: "1", DeletedAt: time.Now()}
	pods.Put(target, contenttest.Object{Name: "pod"})
	for range 2 {
		fmt.Println(pods.Delete(context.Background(), target, "pod", ""))
	}
	// Output:
	// connection refused
	// <nil>
}
