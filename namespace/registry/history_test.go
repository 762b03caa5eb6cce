package registry_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/bolt"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// The README says how long values remain after the removal of their namespace: in the
// present not at all, in history and in files until it is compacted.
func TestValuesRemainInHistory(t *testing.T) {
	secret := []byte("correct horse battery staple")
	path := filepath.Join(t.TempDir(), "service.db")
	m, err := memory.New(nil)
	require.NoError(t, err)
	f, err := bolt.Open(path, nil)
	require.NoError(t, err)
	for name, s := range map[string]interface {
		store.Store
		store.Compactor
	}{"memory": m, "bolt": f} {
		t.Run(name, func(t *testing.T) {
			v := newVersion(t, s, documents)
			v.create("acme")
			before := now(t, s)
			o := v.put(documents.Name(), "acme", registry.Object{
				Meta:   namespace.Meta{Name: "d"},
				Fields: map[string]json.RawMessage{"data": must(json.Marshal(secret))},
			})
			value, err := s.Get(t.Context(), "/registry/documents.example.com/acme/d")
			require.NoError(t, err)
			written := now(t, s)
			v.terminate("acme")
			_, err = v.pass("acme")
			require.NoError(t, err)

			page, err := s.List(t.Context(), store.Query{})
			require.NoError(t, err)
			require.Len(t, page.Entries, 1, "the type record")
			for change, err := range s.Watch(t.Context(), value.Key, before) {
				require.NoError(t, err)
				require.Equal(t, value.Value, change.Events[0].Value)
				break
			}
			page, err = s.List(t.Context(), store.Query{Prefix: value.Key, At: written})
			require.NoError(t, err)
			require.Equal(t, value.Value, page.Entries[0].Value)
			require.NotEmpty(t, o.UID)

			if s == store.Store(f) {
				file, err := os.ReadFile(path)
				require.NoError(t, err)
				require.True(t, bytes.Contains(file, must(json.Marshal(secret))))
			}
			require.NoError(t, s.Compact(t.Context(), now(t, s).Revision))
			_, err = s.List(t.Context(), store.Query{Prefix: value.Key, At: written})
			require.ErrorIs(t, err, store.ErrGone)
			for _, err := range s.Watch(t.Context(), value.Key, before) {
				require.ErrorIs(t, err, store.ErrGone)
			}
			require.NoError(t, s.Close())
		})
	}
}
