package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/postgres"
)

// Two processes share a store; each sees the commits of the other at once. (This example
// is compiled here and run by the test below, as it needs a server.)
func Example() {
	ctx := context.Background()
	if err := shareStore(ctx, "postgres://service@db.example.com/service"); err != nil {
		fmt.Println(err)
	}
}

func shareStore(ctx context.Context, dsn string) error {
	here, err := postgres.Open(ctx, dsn, "lifecycle", nil)
	if err != nil {
		return err
	}
	defer here.Close()
	there, err := postgres.Open(ctx, dsn, "lifecycle", nil)
	if err != nil {
		return err
	}
	defer there.Close()
	revision, err := here.Commit(ctx, store.Txn{
		If: []store.Condition{store.Absent("namespaces/blue")},
		Do: []store.Operation{store.Put("namespaces/blue", []byte("Active"))},
	})
	if err != nil {
		return err
	}
	entry, err := there.Get(ctx, "namespaces/blue")
	if err == nil && entry.Revision != revision {
		err = errors.New("another revision")
	}
	return err
}

func TestExample(t *testing.T) {
	t.Parallel()
	require.NoError(t, shareStore(t.Context(), database(t)))
}
