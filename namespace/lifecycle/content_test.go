package lifecycle_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/lifecycle"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

func TestContent(t *testing.T) {
	tenants := newService(t, nil)
	ctx := t.Context()
	content, err := lifecycle.NewContent[Invoice](tenants.Registry(), invoices)
	require.NoError(t, err)
	_, err = tenants.Create(ctx, "acme")
	require.NoError(t, err)

	o := lifecycle.Named("one", Invoice{"Ada", 1})
	o.Labels = map[string]string{"paid": "no"}
	created, err := content.Create(ctx, "acme", o)
	require.NoError(t, err)
	require.Equal(t, o.Value, created.Value)
	require.NotEmpty(t, created.UID)

	changed := created
	changed.Value.Cents = 2
	updated, err := content.Update(ctx, "acme", changed)
	require.NoError(t, err)
	require.Equal(t, int64(2), updated.Value.Cents)
	_, err = content.Update(ctx, "acme", changed)
	require.ErrorIs(t, err, namespace.ErrConflict)

	got, err := content.Get(ctx, "acme", "one")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(updated, got))
	list, err := content.List(ctx, "acme", registry.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]lifecycle.Object[Invoice]{got}, list.Items))

	require.NoError(t, content.Delete(ctx, "acme", "one", namespace.Preconditions{UID: got.UID}))
	_, err = content.Get(ctx, "acme", "one")
	require.ErrorIs(t, err, namespace.ErrNotFound)

	var seen []registry.EventType
	for e, err := range content.Watch(ctx, "acme", registry.WatchOptions{ResourceVersion: "0"}) {
		require.NoError(t, err)
		require.Equal(t, "one", e.Object.Name)
		require.Equal(t, "Ada", e.Object.Value.Customer)
		if seen = append(seen, e.Type); e.Type == registry.Deleted {
			break
		}
	}
	require.Equal(t, []registry.EventType{registry.Added, registry.Modified, registry.Deleted}, seen)
}

// A stored object that T cannot represent is reported with its name, and so is a T that is
// no JSON object or that uses the members of the object itself.
func TestContentThatDoesNotFit(t *testing.T) {
	tenants := newService(t, nil)
	ctx := t.Context()
	_, err := tenants.Create(ctx, "acme")
	require.NoError(t, err)

	number, err := lifecycle.NewContent[int](tenants.Registry(), invoices)
	require.NoError(t, err)
	_, err = number.Create(ctx, "acme", lifecycle.Named("number", 1))
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorContains(t, err, `invoices "number" cannot be encoded as a JSON object`)

	for _, member := range []string{"apiVersion", "kind", "metadata"} {
		of, err := lifecycle.NewContent[map[string]string](tenants.Registry(), invoices)
		require.NoError(t, err)
		_, err = of.Create(ctx, "acme", lifecycle.Named("own", map[string]string{member: "mine"}))
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.ErrorContains(t, err, member)
	}

	raw, err := tenants.Registry().Content(invoices.Name())
	require.NoError(t, err)
	_, err = raw.Create(ctx, "acme", registry.Object{
		Meta: namespace.Meta{Name: "bad"}, Fields: map[string]json.RawMessage{"cents": json.RawMessage(`"many"`)},
	})
	require.NoError(t, err)
	content, err := lifecycle.NewContent[Invoice](tenants.Registry(), invoices)
	require.NoError(t, err)
	_, err = content.Get(ctx, "acme", "bad")
	var mismatch *json.UnmarshalTypeError
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, `invoices "bad" cannot be decoded into a lifecycle_test.Invoice`)
	_, err = content.List(ctx, "acme", registry.ListOptions{})
	require.ErrorAs(t, err, &mismatch)

	_, err = lifecycle.NewContent[Invoice](tenants.Registry(), registry.ResourceType{Resource: "unknown"})
	require.Error(t, err)
}
