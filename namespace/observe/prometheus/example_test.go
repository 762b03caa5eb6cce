package prometheus_test

import (
	"context"
	"fmt"
	"log"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/observe/prometheus"
)

// A controller with metrics and further hooks.
func Example() {
	party := namespace.Party{Finalizer: finalizer.Kubernetes}
	collector, err := prometheus.New(party.Finalizer, nil)
	check(err)
	registry := client.NewRegistry() // usually client.DefaultRegisterer
	check(registry.Register(collector))

	host := new(controllertest.Host) // usually a registry.Registry, or the host's own
	documents := namespace.ResourceType{Group: "example.com", Name: "documents"}
	d, err := deleter.New([]deleter.Source{{Resource: documents, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (remaining int, err error) { return 0, nil }}.Content()}}, nil)
	check(err)
	removed := make(chan string)
	report := controller.Hooks{Removed: func(ref namespace.Ref) { removed <- ref.Name }}
	c, err := controller.New(host, d, party, &controller.Options{Hooks: []controller.Hooks{collector.Hooks(), report}})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { check(c.Run(ctx)) }()

	_, err = host.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	check(err)
	_, err = host.Delete(ctx, "acme")
	check(err)
	fmt.Println("removed:", <-removed)
	families, err := registry.Gather()
	check(err)
	for _, family := range families {
		if family.GetName() == "namespace_deletion_duration_seconds" {
			fmt.Println("deletions:", family.GetMetric()[0].GetHistogram().GetSampleCount())
		}
	}
	// Output:
	// removed: acme
	// deletions: 1
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
