package registry_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A server passes on what is stored, and encodes a change once for all who watch.
func ExampleContent_ListJSON() {
	s, err := memory.New(nil)
	if err != nil {
		panic(err)
	}
	defer s.Close()
	r, err := registry.New(s, &registry.Options{Types: []registry.ResourceType{{Version: "v1", Resource: "nodes", Kind: "Node"}}})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	nodes, err := r.Content(r.Types()[0].Name())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	for _, name := range []string{"a", "b", "c"} {
		o := registry.Object{Meta: namespace.Meta{Name: name}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"size": 1}`)}}
		if _, err := nodes.Create(ctx, "", o); err != nil {
			panic(err)
		}
	}
	page, err := nodes.ListJSON(ctx, "", registry.ListOptions{Limit: 1})
	if err != nil {
		panic(err)
	}
	var first struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(page.Items[0], &first); err != nil {
		panic(err)
	}
	fmt.Printf("%s, and %d more\n", first.Spec, *page.RemainingItemCount)

	for event, err := range nodes.Watch(ctx, "", registry.WatchOptions{ResourceVersion: page.ResourceVersion, Shared: true}) {
		if err != nil {
			panic(err)
		}
		frame, err := event.Encoded("type", func(e registry.Event[registry.Object]) ([]byte, error) {
			return json.Marshal(map[string]string{"type": e.Type.String()})
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", frame)
		break // this was the bookmark: nothing has happened since the list
	}
	// Output:
	// {"size":1}, and 2 more
	// {"type":"BOOKMARK"}
}
