package quota_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

func TestRunCountsNewQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		require.NoError(t, e.create(configmaps, named("c")))
		e.limit("before", "configmaps", "1")
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- quota.Run(ctx, e.Registry, &quota.RunOptions{Changed: func(ns string, changes []quota.Change) {
				for _, c := range changes {
					got = append(got, fmt.Sprint(ns, ": ", c))
				}
			}})
		}()
		synctest.Wait()
		e.limit("since", "configmaps", "2")
		synctest.Wait()
		_, err := e.content(quota.Resource).Update(e.ctx, space, limits("since", "configmaps", "2", "resourcequotas", "4"))
		require.NoError(t, err)
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
		require.Empty(t, cmp.Diff([]string{
			"acme: before: configmaps counted: 1", "acme: since: configmaps counted: 1", "acme: since: resourcequotas counted: 2",
		}, got))
	})
}

// With Recount, Run finds writes that bypassed the plug-in.
func TestRunRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemory(t)
		e, past := newEnvOver(t, s), openOver(t, s, false)
		e.limit("a", "configmaps", "1")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- quota.Run(ctx, e.Registry, &quota.RunOptions{Recount: time.Minute}) }()
		synctest.Wait()
		require.NoError(t, past.create(configmaps, named("c")))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Contains(t, e.status("a"), `"used":{"configmaps":"1"}`)
		cancel()
		require.NoError(t, <-ended)
	})
}

// After a recount of all quotas, Run watches again without a delay.
func TestRunWatchesAfterRecount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- quota.Run(ctx, e.Registry, &quota.RunOptions{Recount: 10 * time.Second}) }()
		for i := range 12 {
			time.Sleep(10 * time.Second) // a recount is due now
			synctest.Wait()
			name := fmt.Sprint("q", i)
			e.limit(name, "configmaps", "1")
			synctest.Wait()
			require.Contains(t, e.status(name), `"used":{"configmaps":"0"}`)
		}
		cancel()
		require.NoError(t, <-ended)
	})
}

// Run retries after store errors.
func TestRunRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemory(t)
		newEnvOver(t, s).limit("a", "configmaps", "1")
		faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
			if a.Method == "list" && a.N < 3 || a.Method == "watch" && a.N < 2 {
				return storetest.Fault{Kind: storetest.Fail}
			}
			return storetest.Fault{}
		})
		require.NoError(t, err)
		plugin, err := quota.New()
		require.NoError(t, err)
		r, err := registry.New(faulty, &registry.Options{Types: types, Admission: []registry.Admission{plugin}})
		require.NoError(t, err)
		var failed []error
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- quota.Run(ctx, r, &quota.RunOptions{Failed: func(err error) { failed = append(failed, err) }})
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
		require.NotEmpty(t, failed)
		for _, err := range failed {
			require.ErrorIs(t, err, storetest.ErrInjected)
		}
		require.NoError(t, r.Close())
		list, err := openOver(t, s, false).content(quota.Resource).List(t.Context(), "", registry.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, `{"hard":{"configmaps":"1"},"used":{"configmaps":"0"}}`, string(list.Items[0].Fields["status"]))
	})
}

func TestRunBadInput(t *testing.T) {
	e := newEnv(t)
	e.limit("a", "configmaps", "1")
	require.ErrorContains(t, quota.Run(e.ctx, e.Registry, &quota.RunOptions{Recount: -1}), "RunOptions.Recount")
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	require.NoError(t, quota.Run(ended, e.Registry, nil))
	without := openOver(t, e.store, false)
	require.NoError(t, without.remove(quota.Resource, "a"))
	require.NoError(t, without.create(quota.Resource, limits("a", "configmaps", "1")))
	require.True(t, errors.Is(quota.Run(e.ctx, without.Registry, nil), quota.ErrNotInstalled))
	bare, err := registry.New(e.store, nil)
	require.NoError(t, err)
	require.ErrorIs(t, quota.Run(e.ctx, bare, nil), namespace.ErrNotFound)
	require.NoError(t, bare.Close())
}
