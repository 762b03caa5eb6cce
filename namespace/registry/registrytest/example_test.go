package registrytest_test

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func ExampleCheck() {
	ctx := context.Background()
	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := registry.New(s, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	if _, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(registrytest.Check(ctx, s, "registry"))

	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete("/registry/.gate/acme")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(registrytest.Check(ctx, s, "registry"))
	// Output:
	// <nil>
	// namespace "acme": the gate is missing (R6)
}

// Audit finds violations whose traces are removed by now.
func ExampleAudit() {
	ctx := context.Background()
	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	begin, err := s.List(ctx, store.Query{Limit: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	orphan, err := registrytest.Value([]byte(`{"metadata":{"name":"a","namespace":"acme","uid":"1"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var last store.Revision
	for _, op := range []store.Operation{
		store.Put("/registry/notes/acme/a", orphan),
		store.Delete("/registry/notes/acme/a"),
	} {
		if last, err = s.Commit(ctx, store.Txn{Do: []store.Operation{op}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(registrytest.Check(ctx, s, "registry"))
	fmt.Println(registrytest.Audit(ctx, s, "registry", begin.Position, last))
	// Output:
	// <nil>
	// revision 1: "/registry/notes/acme/a" was created in a namespace that is not Active (R6)
}
