package debug_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

var (
	_ debug.Namespaces = (*registry.Registry)(nil)
	_ debug.Counter    = (*registry.Registry)(nil)
	_ debug.Holds      = (*registry.Registry)(nil)
	_ debug.Explainer  = (*explain.Explainer)(nil)
	_ debug.Summarizer = (*explain.Explainer)(nil)
)

// The pages are mounted wherever the host likes, behind whatever guards its other
// internals. What they show is there for programs too.
func Example() {
	ctx := context.Background()
	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	namespaces, err := registry.New(s, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	recorder := explain.NewRecorder() // its Hooks go to the controller
	explainer := explain.New(namespaces, &explain.Options{Recorder: recorder})
	pages, err := debug.New(namespaces, explainer, &debug.Options{Title: "Orders: namespaces"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/namespaces/", pages)
	server := httptest.NewUnstartedServer(mux)
	server.Config.RegisterOnShutdown(func() { _ = pages.Close() }) // always nil
	server.Start()
	defer server.Close()

	for _, name := range []string{"acme", "globex"} {
		if _, err := namespaces.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := namespaces.Delete(ctx, "acme", namespace.Preconditions{}); err != nil {
		fmt.Println(err)
		return
	}
	answer, err := http.Get(server.URL + "/debug/namespaces/?format=json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	var index struct {
		Active, Terminating int
		Namespaces          []struct{ Name, Stage string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&index); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d active, %d terminating: %+v\n", index.Active, index.Terminating, index.Namespaces)
	// Output: 1 active, 1 terminating: [{Name:acme Stage:DeletingContent}]
}
