package kubernetes

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// become replaces the namespace by another incarnation as soon as pods were listed.
func (a *api) become(uid types.UID) {
	a.after = func(r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/x/pods" {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.uid = uid
		}
	}
}

// R8: if the namespace was replaced before or after a listing, the page shows nothing of the other
// incarnation.
func TestR8_ViewIsFenced(t *testing.T) {
	for _, uid := range []string{"one", "two"} {
		t.Run(uid, func(t *testing.T) {
			a := newAPI(t, pod("p"))
			a.active = true
			a.become("two")
			target := deleter.Target{Namespace: "x", UID: uid}
			page, err := a.of(podsType, time.Second).View(t.Context(), target, 0, "")
			require.ErrorIs(t, err, deleter.ErrIncarnation)
			require.Empty(t, page.Items)
		})
	}
}

// Before a listing, any earlier read is sufficient unless the incarnation was reported gone since.
// After the listing there must be a new read.
func TestViewReads(t *testing.T) {
	a := newAPI(t, pod("p"))
	a.active = true
	target := deleter.Target{Namespace: "x", UID: "one"}
	c := a.of(podsType, time.Second)
	for _, want := range [][]string{{"GET x", "GET x/pods", "GET x"}, {"GET x/pods", "GET x"}} {
		page, err := c.View(t.Context(), target, 0, "")
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.Equal(t, want, a.asked())
	}
	c.incarnations.void("x", "one")
	_, err := c.View(t.Context(), target, 0, "")
	require.NoError(t, err)
	require.Equal(t, []string{"GET x", "GET x/pods", "GET x"}, a.asked())
	_, err = c.List(t.Context(), a.target, 0, "")
	require.ErrorIs(t, err, deleter.ErrIncarnation, "an Active namespace can be inspected, not listed")
}

// A listing of another incarnation is not remembered for the requested one.
func TestR8_ViewOfAReplacedNamespace(t *testing.T) {
	a := newAPI(t, pod("p"))
	a.active = true
	c := a.of(podsType, time.Second)
	_, err := c.View(t.Context(), deleter.Target{Namespace: "x", UID: "one"}, 0, "")
	require.NoError(t, err)
	a.asked()
	for range 2 {
		_, err := c.View(t.Context(), deleter.Target{Namespace: "x", UID: "another"}, 0, "")
		require.ErrorIs(t, err, deleter.ErrIncarnation)
		require.Equal(t, []string{"GET x"}, a.asked())
	}
}
