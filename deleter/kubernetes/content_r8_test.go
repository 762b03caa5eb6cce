package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// replacedAt runs f, which makes some requests, twice for each of them: with the namespace
// replaced just before the request is served, and just after. It checks that nothing of the new
// namespace is deleted.
func replacedAt(t *testing.T, pods []metav1.ObjectMeta, f func(t *testing.T, a *api)) {
	t.Helper()
	for _, active := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for at, more := 1, true; more; at++ {
				t.Run(fmt.Sprintf("active %t, after %t, request %d", active, after, at), func(t *testing.T) {
					a := newAPI(t, slices.Clone(pods)...)
					n, there := 0, []string(nil)
					replace := func() {
						a.replace(active)
						there = a.names()
					}
					a.before = func(http.ResponseWriter, *http.Request) bool {
						if n++; n == at && !after {
							replace()
						}
						return false
					}
					a.after = func(*http.Request) {
						if n == at && after {
							replace()
						}
					}
					f(t, a)
					if more = n >= at; more {
						require.Equal(t, there, a.names(), "objects of another incarnation were deleted")
					}
				})
			}
		}
	}
}

// If the namespace is replaced at any moment by another one with objects of the same names, a pass
// that deletes one by one touches none of them, although it relies on a read that is an hour old.
func TestR8_OneByOneIsExact(t *testing.T) {
	replacedAt(t, []metav1.ObjectMeta{pod("a"), pod("b"), pod("c")}, func(t *testing.T, a *api) {
		c := a.of(oneByOneType, time.Hour)
		d, err := deleter.New([]deleter.Source{{Resource: podsResource, Content: c}}, &deleter.Options{PageSize: 2, Parallelism: 1, ObjectParallelism: 1})
		require.NoError(t, err)
		_, _ = d.Delete(t.Context(), a.target, deleter.Report{}) // it fails, or was too early to notice
	})
}

// The same for a deletion that does not name the uid of the object.
func TestR8_DeletionByNameIsExact(t *testing.T) {
	for _, kind := range []typeInfo{oneByOneType, podsType} {
		replacedAt(t, []metav1.ObjectMeta{pod("a")}, func(t *testing.T, a *api) {
			_ = a.of(kind, time.Hour).Delete(t.Context(), a.target, "a", "")
		})
	}
}

// The same for every type, if the host asks for exact deletion or a namespace refuses collections.
func TestR8_CollectionTypesOneByOneAreExact(t *testing.T) {
	for _, how := range []string{"option", "refusal"} {
		replacedAt(t, []metav1.ObjectMeta{pod("a"), pod("b")}, func(t *testing.T, a *api) {
			c := a.of(podsType, time.Hour)
			if how == "option" {
				c.oneByOne = true
			} else {
				c.incarnations.refuseCollections(a.target, podsResource)
			}
			d, err := deleter.New([]deleter.Source{{Resource: podsResource, Content: c}}, &deleter.Options{Parallelism: 1, ObjectParallelism: 1})
			require.NoError(t, err)
			_, _ = d.Delete(t.Context(), a.target, deleter.Report{})
		})
	}
}

// Before it deletes a collection, a pass needs a read of the namespace. The read may be as old as
// the host allows, and must have begun after the incarnation was last reported gone.
func TestR8_CollectionsRelyOnARecentLook(t *testing.T) {
	collection := func(a *api, c *content) error {
		_, _, err := c.DeleteCollection(t.Context(), a.target)
		return err
	}
	t.Run("each looks anew", func(t *testing.T) {
		a := newAPI(t, pod("a"))
		c := a.of(podsType, -1)
		require.NoError(t, c.incarnations.confirmRecent(t.Context(), a.target))
		a.replace(false)
		require.ErrorIs(t, collection(a, c), deleter.ErrIncarnation)
		_, err := c.List(t.Context(), a.target, 0, "")
		require.ErrorIs(t, err, deleter.ErrIncarnation)
		require.ErrorIs(t, c.Delete(t.Context(), a.target, "a", "uid-of-a-again"), deleter.ErrIncarnation)
		require.Equal(t, []string{"a"}, a.names())
	})
	t.Run("gone", func(t *testing.T) {
		a := newAPI(t, pod("a"))
		c := a.of(podsType, time.Hour)
		require.NoError(t, c.incarnations.confirmRecent(t.Context(), a.target))
		a.replace(false)
		c.incarnations.void("x", "one")
		require.ErrorIs(t, collection(a, c), deleter.ErrIncarnation)
		require.Equal(t, []string{"a"}, a.names())
	})
}

// Objects that were listed one by one need no further read, however strict the host is, because
// their uid is a sufficient fence.
func TestR8_OneByOneReadsOncePerPage(t *testing.T) {
	a := newAPI(t, pod("a"), pod("b"), pod("c"))
	c := a.of(oneByOneType, -1)
	page, err := c.List(t.Context(), a.target, 0, "")
	require.NoError(t, err)
	for _, item := range page.Items {
		require.NoError(t, c.Delete(t.Context(), a.target, item.Name, item.UID))
	}
	require.Equal(t, []string{"GET x", "GET x/pods", "GET x", "DELETE x/pods/a", "DELETE x/pods/b", "DELETE x/pods/c"}, a.asked())
}

// In an Active namespace nothing is listed, because an empty type may be filled the next moment,
// and nothing is deleted.
func TestR6_ActiveNamespaceIsUntouched(t *testing.T) {
	for _, kind := range []typeInfo{podsType, oneByOneType} {
		a := newAPI(t, pod("a"))
		a.active = true
		c := a.of(kind, time.Hour)
		ctx := t.Context()
		for what, call := range map[string]func() error{
			"list":   func() error { _, err := c.List(ctx, a.target, 0, ""); return err },
			"delete": func() error { return c.Delete(ctx, a.target, "a", "") },
			"by uid": func() error { return c.Delete(ctx, a.target, "a", "uid-of-a") },
			"collection": func() error {
				if kind == oneByOneType {
					return deleter.ErrIncarnation
				}
				_, _, err := c.DeleteCollection(ctx, a.target)
				return err
			},
			"wait": func() error {
				if kind == oneByOneType {
					return deleter.ErrIncarnation
				}
				return c.Wait(ctx, a.target, "1")
			},
		} {
			require.ErrorIs(t, call(), deleter.ErrIncarnation, what)
		}
		for _, request := range a.asked() {
			require.Equal(t, "GET x", request)
		}
		require.Equal(t, []string{"a"}, a.names())
	}
}

// An empty page of an unconfirmed namespace does not count.
func TestR7_EmptyPageOfAnUnconfirmedNamespace(t *testing.T) {
	a := newAPI(t)
	a.before = onPath("x", func(w http.ResponseWriter) { refuse(w, 500, metav1.StatusReasonInternalError, "broken") })
	d, err := deleter.New([]deleter.Source{{Resource: podsResource, Content: a.of(podsType, time.Hour)}}, nil)
	require.NoError(t, err)
	report, err := d.Delete(context.WithoutCancel(t.Context()), a.target, deleter.Report{})
	require.ErrorContains(t, err, "cannot determine")
	require.False(t, report.Empty())
}

// A conflict that a proxy reports is no statement about the object.
func TestR8_WebPageIsNoConflict(t *testing.T) {
	a := newAPI(t, pod("a"))
	a.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte("<html><body>Conflict</body></html>"))
		return true
	}
	err := a.of(podsType, time.Second).Delete(t.Context(), a.target, "a", "another-uid")
	require.Error(t, err)
	require.NotErrorIs(t, err, deleter.ErrReplaced)
	require.Equal(t, []string{"GET x", "DELETE x/pods/a"}, a.asked())
}
