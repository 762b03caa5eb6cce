package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/etcd"
)

// The examples need a cluster, so they are compiled and not run.

// ExampleNew uses a client with a user and keep-alive probes. The store keeps its history for ten
// to twenty minutes.
func ExampleNew() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{"https://etcd-0:2379", "https://etcd-1:2379", "https://etcd-2:2379"},
		Username:          "blue",
		Password:          "secret",
		DialKeepAliveTime: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	s, err := etcd.New(ctx, client, "/services/blue", &etcd.Options{Compact: 10 * time.Minute})
	switch {
	case errors.Is(err, etcd.ErrForeign):
		fmt.Println("another program uses the prefix:", err)
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()
	_, err = s.Commit(ctx, store.Txn{
		If: []store.Condition{store.Absent("namespaces/blue")},
		Do: []store.Operation{store.Put("namespaces/blue", []byte("Active"))},
	})
	fmt.Println("created:", err)
}

// ExampleOpen connects to a server without TLS and users.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := etcd.Open(ctx, []string{"127.0.0.1:2379"}, "/test", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()
	page, err := s.List(ctx, store.Query{Prefix: "namespaces/"})
	fmt.Println(len(page.Entries), page.Position, err)
}
