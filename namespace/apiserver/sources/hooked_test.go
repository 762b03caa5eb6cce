package sources_test

import (
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// newHooked returns a registry over the store of e that calls before before it
// reads an object that it is to delete or replace.
func newHooked(e *env, before func()) *registry.Registry {
	faulty, err := storetest.Inject(e.store, func(a storetest.Attempt) storetest.Fault {
		if a.Method == "get" && a.Key == "/registry/configmaps/"+space+"/a" {
			before()
		}
		return storetest.Fault{}
	})
	require.NoError(e.t, err)
	r, err := registry.New(faulty, &registry.Options{Types: types})
	require.NoError(e.t, err)
	return r
}
