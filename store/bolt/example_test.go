package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
)

// Acknowledged commits are in the file when it is opened again, and a watch resumes at its
// position.
func Example() {
	dir, err := os.MkdirTemp("", "bolt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, ctx := filepath.Join(dir, "namespaces.db"), context.Background()

	s, err := bolt.Open(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = s.Commit(ctx, store.Txn{
		If: []store.Condition{store.Absent("namespaces/blue")},
		Do: []store.Operation{store.Put("namespaces/blue", []byte("Active"))},
	})
	fmt.Println("created:", err)
	page, err := s.List(ctx, store.Query{Prefix: "namespaces/"})
	fmt.Println("listed:", len(page.Entries), err)
	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("namespaces/blue", []byte("Terminating"))}})
	fmt.Println("updated:", err)
	fmt.Println("closed:", s.Close())

	s, err = bolt.Open(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()
	_, err = s.Commit(ctx, store.Txn{
		If: []store.Condition{store.Absent("namespaces/blue")},
		Do: []store.Operation{store.Put("namespaces/blue", []byte("Active"))},
	})
	fmt.Println("created again: a conflict:", errors.Is(err, store.ErrConflict))
	for change, err := range s.Watch(ctx, "namespaces/", page.Position) {
		if err != nil || change.Bookmark() {
			break
		}
		for _, e := range change.Events {
			fmt.Printf("%s: %s, before: %s\n", e.Key, e.Value, e.Prev.Value)
		}
	}
	// Output:
	// created: <nil>
	// listed: 1 <nil>
	// updated: <nil>
	// closed: <nil>
	// created again: a conflict: true
	// namespaces/blue: Terminating, before: Active
}

// One process holds a file. A second opening fails at once.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "bolt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "namespaces.db")

	first, err := bolt.Open(path, &bolt.Options{Retain: 10_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = first.Close() }()
	_, err = bolt.Open(path, nil)
	fmt.Println("in use:", errors.Is(err, store.ErrInUse))
	// Output:
	// in use: true
}
