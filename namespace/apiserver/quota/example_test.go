package quota_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// example returns a registry with quotas on disks and their size.
func example() (*registry.Registry, error) {
	disks := namespace.ResourceType{Group: "example.com", Name: "disks"}
	counted, err := quota.New(quota.Rule{Resource: disks, Sums: map[string]string{"requests.storage": "spec.size"}})
	if err != nil {
		return nil, err
	}
	s, err := memory.New(nil)
	if err != nil {
		return nil, err
	}
	return registry.New(s, &registry.Options{
		Types: []registry.Type{
			{Version: "v1", Resource: "resourcequotas", Kind: "ResourceQuota", Namespaced: true, Status: true},
			{Group: "example.com", Version: "v1", Resource: "disks", Kind: "Disk", Namespaced: true},
		},
		Admission: []registry.Admission{counted},
	})
}

func object(name, spec string) registry.Object {
	return registry.Object{Meta: namespace.Meta{Name: name}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(spec)}}
}

func ExampleNew() {
	ctx := context.Background()
	r, err := example()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	quotas, _ := r.Content(quota.Resource)
	disks, _ := r.Content(namespace.ResourceType{Group: "example.com", Name: "disks"})

	_, err = quotas.Create(ctx, "acme", object("small", `{"hard":{"count/disks.example.com":"3","requests.storage":"100Gi"}}`))
	fmt.Println(err)
	_, err = disks.Create(ctx, "acme", object("a", `{"size":"60Gi"}`))
	fmt.Println(err)
	_, err = disks.Create(ctx, "acme", object("b", `{"size":"60Gi"}`))
	fmt.Println(err)
	small, _ := quotas.Get(ctx, "acme", "small")
	fmt.Println(string(small.Fields["status"]))
	// Output:
	// <nil>
	// <nil>
	// disks.example.com "b" is forbidden: exceeded quota: small, requested: requests.storage=60Gi, used: requests.storage=60Gi, limited: requests.storage=100Gi
	// {"hard":{"count/disks.example.com":"3","requests.storage":"100Gi"},"used":{"count/disks.example.com":"1","requests.storage":"60Gi"}}
}

func ExampleRecount() {
	ctx := context.Background()
	r, err := example()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	disks, _ := r.Content(namespace.ResourceType{Group: "example.com", Name: "disks"})
	quotas, _ := r.Content(quota.Resource)
	_, _ = disks.Create(ctx, "acme", object("a", `{"size":"60Gi"}`))
	_, _ = quotas.Create(ctx, "acme", object("small", `{"hard":{"requests.storage":"100Gi"}}`))
	changes, err := quota.Recount(ctx, r, "acme")
	fmt.Println(changes, err)
	changes, err = quota.Recount(ctx, r, "acme")
	fmt.Println(changes, err)
	// Output:
	// [small: requests.storage counted: 60Gi] <nil>
	// [] <nil>
}
