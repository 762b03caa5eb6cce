package limitrange_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/limitrange"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func ExampleNew() {
	jobs := namespace.ResourceType{Group: "example.com", Name: "jobs"}
	bounded, err := limitrange.New(limitrange.Rule{Resource: jobs, Items: []string{"spec.steps[*]"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := registry.New(s, &registry.Options{
		Types: []registry.Type{
			{Version: "v1", Resource: "limitranges", Kind: "LimitRange", Namespaced: true},
			{Group: "example.com", Version: "v1", Resource: "jobs", Kind: "Job", Namespaced: true},
		},
		Admission: []registry.Admission{bounded},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_, _ = r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	ranges, _ := r.Content(limitrange.Resource)
	content, _ := r.Content(jobs)
	create := func(c *registry.Content, name, spec string) {
		o, err := c.Create(ctx, "acme", registry.Object{
			Meta: namespace.Meta{Name: name}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(spec)},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(o.Fields["spec"]))
	}
	create(ranges, "small", `{"limits":[{"type":"Container","max":{"cpu":"2"},"defaultRequest":{"cpu":"500m"}}]}`)
	create(content, "a", `{"steps":[{"name":"build"}]}`)
	create(content, "b", `{"steps":[{"name":"build","resources":{"limits":{"cpu":"4"}}}]}`)
	// Output:
	// {"limits":[{"default":{"cpu":"2"},"defaultRequest":{"cpu":"500m"},"max":{"cpu":"2"},"type":"Container"}]}
	// {"steps":[{"name":"build","resources":{"limits":{"cpu":"2"},"requests":{"cpu":"500m"}}}]}
	// jobs.example.com "b" is forbidden: maximum cpu usage per Container is 2, but limit is 4
}

func ExamplePods() {
	fmt.Println(limitrange.Pods().Items, limitrange.Pods().Type)
	// Output: [spec.containers[*]] Pod
}
