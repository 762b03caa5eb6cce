package quota_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// The plug-in refuses quantities whose sums clients could not read.
func TestQuantitiesAreBounded(t *testing.T) {
	e := newEnv(t)
	for _, text := range []string{"1e21", "1000E", strings.Repeat("9", 62) + "E", "1" + strings.Repeat("0", 21), "1e30"} {
		err := e.create(quota.Resource, limits("q", "example.com/size", text))
		require.ErrorIs(t, err, namespace.ErrInvalid, text)
		require.ErrorContains(t, err, "spec.hard[example.com/size]: Invalid value: ", text)
		require.ErrorContains(t, err, ": must be less than 1e21", text)
		err = e.create(widgets, widget("w", `{"size":"`+text+`"}`))
		require.ErrorIs(t, err, namespace.ErrInvalid, text)
		require.ErrorContains(t, err, "must be less than 1e21", text)
	}
	e.limit("q", "example.com/size", "999E")
	require.NoError(t, e.create(widgets, widget("w", `{"size":"998E"}`)))
}

// Clients can read every sum, in JSON and in protobuf, and write it back.
func TestSumsCanBeRead(t *testing.T) {
	greatest := strings.Repeat("9", 21) + "." + strings.Repeat("9", 9)
	for _, hard := range []string{greatest, "1", "16Ei", "9e18", "1n"} {
		s := newMemory(t)
		e := newEnvOver(t, s)
		for i, size := range []string{greatest, greatest, "1n", "1Ei", "1e20"} {
			require.NoError(t, e.create(widgets, widget(fmt.Sprint("w", i), `{"size":"`+size+`"}`)))
		}
		e.limit("q", "example.com/size", hard)
		requireReadable(t, e)
		require.NoError(t, e.remove(widgets, "w3")) // counts the figure
		require.Contains(t, e.status("q"), `"used":`)
		requireReadable(t, e)
		require.ErrorIs(t, e.create(widgets, widget("w5", `{"size":"`+greatest+`"}`)), namespace.ErrForbidden)
		requireReadable(t, e)
	}
}

// A figure that clients cannot read is counted again.
func TestUnreadableFigures(t *testing.T) {
	s := newMemory(t)
	e, past := newEnvOver(t, s), openOver(t, s, false)
	q := e.limit("q", "example.com/size", "5")
	q.Fields["status"] = json.RawMessage(`{"hard":{"example.com/size":"5"},"used":{"example.com/size":"` + strings.Repeat("9", 64) + `"}}`)
	_, err := past.content(quota.Resource).UpdateStatus(e.ctx, space, q)
	require.NoError(t, err)
	require.NoError(t, e.create(widgets, widget("w", `{"size":"2"}`)))
	require.Equal(t, `{"hard":{"example.com/size":"5"},"used":{"example.com/size":"2"}}`, e.status("q"))
}

func requireReadable(t testing.TB, e *env) {
	t.Helper()
	kind := kinds.ResourceQuotas()
	c, err := codec.New([]kinds.Kind{kind})
	require.NoError(t, err)
	list, err := e.content(quota.Resource).List(e.ctx, "", registry.ListOptions{})
	require.NoError(t, err)
	form, err := c.Negotiate("application/vnd.kubernetes.protobuf", kind, false)
	require.NoError(t, err)
	_, err = c.List(form, kind, list, codec.TableOptions{})
	require.NoError(t, err)
	for _, o := range list.Items {
		document, err := json.Marshal(o)
		require.NoError(t, err)
		_, _, err = c.Decode(kind, "application/json", document, codec.Strict)
		require.NoError(t, err)
	}
}
