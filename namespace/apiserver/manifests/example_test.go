package manifests_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/manifests"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// An agent keeps its namespace in step with a directory.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "greeting.yaml")
	_ = os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: greeting\ndata:\n  text: hello\n"), 0o600)
	before := time.Now().Add(-time.Minute) // older than DirectoryOptions.MinAge
	_ = os.Chtimes(file, before, before)

	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := registry.New(s, &registry.Options{Types: []registry.Type{
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := manifests.Directory(dir, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	syncer, err := manifests.New(r, "node-7", files, &manifests.Options{CreateNamespace: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := syncer.Sync(ctx) // or syncer.Run(ctx)
	fmt.Println(result.Created, err)
	configmaps, _ := r.Content(namespace.ResourceType{Name: "configmaps"})
	greeting, _ := configmaps.Get(ctx, "node-7", "greeting")
	fmt.Println(string(greeting.Fields["data"]))
	_ = os.Remove(file)
	result, err = syncer.Sync(ctx)
	fmt.Println(result.Deleted, err)
	// Output:
	// 1 <nil>
	// {"text":"hello"}
	// 1 <nil>
}
