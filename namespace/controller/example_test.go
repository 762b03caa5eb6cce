package controller_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// A controller runs until its context ends. Hooks report its progress.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tenants := new(controllertest.Host)
	d, err := deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "invoices"}, Content: deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 0, nil }}.Content()}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	removed := make(chan string, 1)
	c, err := controller.New(tenants, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{
		Hooks: []controller.Hooks{{Removed: func(ref namespace.Ref) { removed <- ref.Name }}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()

	_, _ = tenants.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	_, _ = tenants.Delete(ctx, "acme")
	fmt.Println("removed:", <-removed)
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// removed: acme
	// ended: <nil>
}

// span is a span of a simplified tracer, without an ID and a duration.
type span struct {
	name     string
	children []*span
}

type spanKey struct{}

// start adds a child to the span of ctx and returns a context with the child.
func start(ctx context.Context, name string) context.Context {
	child := &span{name: name}
	if parent, ok := ctx.Value(spanKey{}).(*span); ok {
		parent.children = append(parent.children, child)
	}
	return context.WithValue(ctx, spanKey{}, child)
}

// end completes the span of ctx.
func end(ctx context.Context, outcome string) *span {
	s := ctx.Value(spanKey{}).(*span)
	s.name += ": " + outcome
	return s
}

func (s *span) print(indent string) {
	fmt.Println(indent + s.name)
	for _, child := range s.children {
		child.print(indent + "  ")
	}
}

// PassStarted sets up all tracing: it starts a span for the pass and attaches a
// [deleter.Trace], which adds a child span for each call.
func ExampleHooks_tracing() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls := &deleter.Trace{
		Start: func(ctx context.Context, call deleter.Call) context.Context {
			return start(ctx, fmt.Sprintf("%s %s", call.Op, call.Resource))
		},
		End: func(ctx context.Context, _ deleter.Call, result deleter.CallResult) {
			end(ctx, fmt.Sprintf("objects %d, error %v", result.Objects, result.Err))
		},
	}
	passes := make(chan *span, 1)
	tracing := controller.Hooks{
		PassStarted: func(ctx context.Context, ref namespace.Ref) context.Context {
			return deleter.WithTrace(start(ctx, "pass "+ref.Name), calls)
		},
		PassEnded: func(ctx context.Context, _ namespace.Ref, result pass.Result, _ error, _ time.Duration) {
			passes <- end(ctx, result.Outcome.String())
		},
	}

	tenants := new(controllertest.Host)
	invoices := deleter.Funcs{Delete: func(context.Context, deleter.Target) (int, error) { return 0, nil }}
	d, err := deleter.New([]deleter.Source{{Resource: namespace.ResourceType{Name: "invoices"}, Content: invoices.Content()}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := controller.New(tenants, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{Hooks: []controller.Hooks{tracing}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	_, _ = tenants.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	_, _ = tenants.Delete(ctx, "acme")
	(<-passes).print("")
	cancel()
	fmt.Println(<-ended)
	// Output:
	// pass acme: removed
	//   read namespaces: objects 0, error <nil>
	//   empty invoices: objects 0, error <nil>
	//   finalize namespaces: objects 0, error <nil>
	// <nil>
}
