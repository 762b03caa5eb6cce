package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
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

// An object without members of its own is a T without values, not a nil T.
func TestContentWithoutMembers(t *testing.T) {
	type settings struct {
		Theme string `json:"theme,omitempty"`
	}
	tenants := newService(t, nil)
	ctx := t.Context()
	_, err := tenants.Create(ctx, "acme")
	require.NoError(t, err)
	content, err := lifecycle.NewContent[*settings](tenants.Registry(), invoices)
	require.NoError(t, err)
	created, err := content.Create(ctx, "acme", lifecycle.Named("one", &settings{}))
	require.NoError(t, err)
	require.Equal(t, &settings{}, created.Value)
	got, err := content.Get(ctx, "acme", "one")
	require.NoError(t, err)
	require.Equal(t, &settings{}, got.Value)
}

// The status of a type with the subresource status is written by UpdateStatus alone.
func TestContentStatus(t *testing.T) {
	type order struct {
		Item   string `json:"item"`
		Status string `json:"status,omitempty"`
	}
	orders := registry.Type{Version: "v1", Resource: "orders", Kind: "Order", Namespaced: true, Status: true}
	tenants := newService(t, &lifecycle.Options{Registry: registry.Options{Types: []registry.Type{orders}}})
	ctx := t.Context()
	_, err := tenants.Create(ctx, "acme")
	require.NoError(t, err)
	content, err := lifecycle.NewContent[order](tenants.Registry(), orders)
	require.NoError(t, err)
	o, err := content.Create(ctx, "acme", lifecycle.Named("one", order{Item: "anvil"}))
	require.NoError(t, err)
	o.Value = order{Item: "rocket", Status: "sent"}
	o, err = content.UpdateStatus(ctx, "acme", o)
	require.NoError(t, err)
	require.Equal(t, order{Item: "anvil", Status: "sent"}, o.Value)
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

	pointers, err := lifecycle.NewContent[*Invoice](tenants.Registry(), invoices)
	require.NoError(t, err)
	_, err = pointers.Create(ctx, "acme", lifecycle.Named[*Invoice]("nil", nil))
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorContains(t, err, `invoices "nil" cannot be encoded as a JSON object: it is null`)

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

	watched, stop := context.WithCancel(ctx)
	defer stop()
	var failed []string
	for e, err := range content.Watch(watched, "acme", registry.WatchOptions{ResourceVersion: "0"}) {
		var invalid *namespace.Error
		if e.Type == registry.Bookmark || errors.Is(err, context.Canceled) {
			stop()
			continue
		}
		require.ErrorAs(t, err, &invalid)
		failed = append(failed, invalid.Name)
		require.NotEmpty(t, e.ResourceVersion)
	}
	require.Equal(t, []string{"bad"}, failed, "the watch continues after an object that cannot be decoded")

	_, err = lifecycle.NewContent[Invoice](tenants.Registry(), registry.Type{Resource: "unknown"})
	require.Error(t, err)
}
