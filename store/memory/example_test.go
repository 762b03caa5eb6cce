package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

func Example() {
	ctx := context.Background()
	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	// Content is created only while the gate of its namespace exists.
	create := store.Txn{
		If: []store.Condition{store.Exists("gate/development"), store.Absent("configmaps/development/settings")},
		Do: []store.Operation{store.Put("configmaps/development/settings", []byte("{}"))},
	}
	_, err = s.Commit(ctx, create)
	fmt.Println(err, errors.Is(err, store.ErrConflict))

	if _, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("gate/development", nil)}}); err != nil {
		fmt.Println(err)
		return
	}
	revision, err := s.Commit(ctx, create)
	fmt.Println(revision, err)
	// Output:
	// store: commit "gate/development": conflict: expected that "gate/development" exists, but it is absent true
	// 2 <nil>
}

func ExampleStore_Watch() {
	ctx := context.Background()
	s, err := memory.New(&memory.Options{Epoch: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	put := func(key, value string) {
		if _, err := s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(key, []byte(value))}}); err != nil {
			fmt.Println(err)
		}
	}
	put("a/1", "first")
	page, err := s.List(ctx, store.Query{Prefix: "a/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	put("a/1", "second")
	put("b/1", "not watched")

	// A watch from the position of the listing misses nothing.
	for change, err := range s.Watch(ctx, "a/", page.Position) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if change.Bookmark() {
			fmt.Println("up to date at", change.Position.Revision)
			break
		}
		for _, e := range change.Events {
			fmt.Printf("%s: %s -> %s\n", e.Key, e.Prev.Value, e.Value)
		}
	}
	// Output:
	// a/1: first -> second
	// up to date at 3
}
