package apiserver_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// churn makes some changes of a few configmaps at random, and returns the version
// before.
func (e *env) churn(random *rand.Rand, changes int) int {
	e.t.Helper()
	before := e.revision()
	for i := range changes {
		name := fmt.Sprint("o", random.IntN(4))
		exists := e.do("GET", configmapsOfX+"/"+name, "").Code == http.StatusOK
		if exists && random.IntN(3) == 0 {
			e.remove(name)
		} else {
			e.put(name, fmt.Sprintf("%d-%x", i, random.Uint32()))
		}
	}
	return before
}

// From every version the rest of history comes, exactly once, in every encoding.
func TestWatchResumesAtEveryVersion(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		const changes = 40
		before := w.churn(rand.New(rand.NewPCG(seed, 1)), changes)
		target := func(version string) string { return configmapsOfX + "?watch=true&resourceVersion=" + version }
		read := func(version string, n int) (seen, versions []string) {
			x := w.watch(target(version))
			defer x.end()
			for range n {
				e := x.must()
				seen = append(seen, e.String())
				versions = append(versions, e.Object.Metadata.ResourceVersion)
			}
			return seen, versions
		}
		history, versions := read(fmt.Sprint(before), changes)
		for i, version := range versions {
			rest, _ := read(version, changes-i-1)
			require.Empty(t, cmp.Diff(history[i+1:], rest, cmp.Transformer("nil", func(s []string) string { return strings.Join(s, "\n") })), "after %d", i)
		}
		random := rand.New(rand.NewPCG(seed, 2))
		var seen []string
		for at := fmt.Sprint(before); len(seen) < changes; {
			part, versions := read(at, 1+random.IntN(min(5, changes-len(seen))))
			seen = append(seen, part...)
			at = versions[len(versions)-1]
		}
		require.Empty(t, cmp.Diff(history, seen))
	})
}

// What one commit did to several objects comes again to a client that has seen a
// part of it.
func TestWatchResumesWithinACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		for i := range 3 {
			w.must(http.StatusCreated, "POST", configmapsOfX, fmt.Sprintf(`{"metadata":{"name":"o%d","finalizers":["example.com/hold"]}}`, i))
		}
		before := fmt.Sprint(w.revision())
		w.must(http.StatusOK, "DELETE", configmapsOfX, "")
		x := w.watch(configmapsOfX + "?watch=true&resourceVersion=" + before)
		e := x.must()
		require.Equal(t, "MODIFIED o0", e.String())
		x.end()
		x = w.watch(configmapsOfX + "?watch=true&resourceVersion=" + e.Object.Metadata.ResourceVersion)
		x.expect("MODIFIED o0", "MODIFIED o1", "MODIFIED o2")
		x.end()
		for i := range 3 {
			w.must(http.StatusOK, "PATCH", fmt.Sprint(configmapsOfX, "/o", i), `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
		}
	})
}

// Every watcher sees the same events, whenever it begins and however it is served.
func TestManyWatchers(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, nil)
		w.namespace("x")
		random := rand.New(rand.NewPCG(seed, 3))
		start := fmt.Sprint(w.revision())
		const rounds, each = 20, 5
		var all []*watching
		for range rounds {
			for _, accept := range []string{"application/json", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1"} {
				all = append(all, w.watch(configmapsOfX+"?watch=true&resourceVersion="+start, "Accept", accept))
			}
			w.churn(random, each)
		}
		var histories [3][]string
		for i, x := range all {
			var seen []string
			for range rounds * each {
				e := x.must()
				seen = append(seen, e.Type)
				if i%3 < 2 {
					seen = append(seen, e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion)
				}
			}
			x.end()
			if histories[i%3] == nil {
				histories[i%3] = seen
			}
			require.Empty(t, cmp.Diff(histories[i%3], seen))
		}
		require.Equal(t, histories[0], histories[1])
	})
}
