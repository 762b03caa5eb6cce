package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// An inventory lists the content before a deletion.
func ExampleComposed_Inventory() {
	development := deleter.Target{Namespace: "development", UID: "4f2c"} // Active
	pods := contenttest.NewFake(nil)
	pods.Put(development, contenttest.Object{Name: "web", UID: "1"}, contenttest.Object{Name: "db", UID: "2", Finalizers: []string{"example.com/backup"}})
	pods.SetActive(development, true)
	d, err := deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "pods"}, Content: pods}}, nil)
	if err != nil {
		panic(err)
	}
	inventory, err := d.Inventory(context.Background(), development)
	for _, o := range inventory.Objects {
		fmt.Println(o.Resource, o.Name, o.UID, o.Finalizers)
	}
	fmt.Println(err)
	// Output:
	// pods db 2 [example.com/backup]
	// pods web 1 []
	// <nil>
}

// An operator waives a source that no longer answers, because it holds nothing of the
// namespace. The report lists its failure separately.
func ExampleReport_waived() {
	down := contenttest.NewFake(&contenttest.FakeOptions{Fault: func(context.Context, contenttest.Call) error {
		return errors.New("connection refused")
	}})
	widgets := namespace.ResourceType{Group: "example.com", Name: "widgets"}
	d, err := deleter.New([]deleter.Source{{Resource: widgets, Content: struct{ deleter.Content }{down}}}, nil)
	if err != nil {
		panic(err)
	}
	development := deleter.Target{Namespace: "development", UID: "4f2c", DeletedAt: time.Now()}
	report, err := d.Delete(context.Background(), development, deleter.Report{})
	fmt.Println(report.Empty(), err)
	development.Waived = []string{"widgets.example.com"}
	report, err = d.Delete(context.Background(), development, report)
	fmt.Println(report.Empty(), err, report.Waived)
	// Output:
	// false widgets.example.com: list: connection refused
	// true <nil> [widgets.example.com: list: connection refused]
}
