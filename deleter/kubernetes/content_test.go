package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// The types of content in tests, in addition to podsType.
var (
	oneByOneType = typeInfo{gvr: podsType.gvr, verbs: canList | canDelete}
	unlistable   = typeInfo{gvr: podsType.gvr, verbs: canDelete | canDeleteCollection}
)

// List returns objects unchanged, in pages, with one read of the namespace.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ten, zero := int64(10), int64(0)
		due := metav1.NewTime(time.Now().Add(4 * time.Second))
		held, going, overdue := pod("held"), pod("going"), pod("overdue")
		held.Finalizers = []string{"example.com/a", "example.com/b"}
		held.DeletionTimestamp, held.DeletionGracePeriodSeconds = &due, &zero
		going.DeletionTimestamp, going.DeletionGracePeriodSeconds = &due, &ten
		past := metav1.NewTime(time.Now().Add(-time.Hour))
		overdue.DeletionTimestamp, overdue.DeletionGracePeriodSeconds = &past, &ten
		a := newAPI(t, pod("plain"), held, going, overdue)
		c := a.of(podsType, time.Second)

		first, err := c.List(t.Context(), a.target, 3, "")
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(deleter.Page{
			Items: []deleter.Item{
				{Name: "plain", UID: "uid-of-plain"},
				{Name: "held", UID: "uid-of-held", Deleting: true, Finalizers: []string{"example.com/a", "example.com/b"}},
				{Name: "going", UID: "uid-of-going", Deleting: true, Grace: 4 * time.Second},
			},
			Next: "3", Remaining: 1, Seen: "10",
		}, first))
		second, err := c.List(t.Context(), a.target, 3, first.Next)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(deleter.Page{Items: []deleter.Item{{Name: "overdue", UID: "uid-of-overdue", Deleting: true}}, Seen: "10"}, second))
		require.Equal(t, []string{"GET x", "GET x/pods", "GET x/pods"}, a.asked())
	})
}

// A grace period stays within its bounds, however far the clocks are apart.
func TestGrace(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		due    time.Duration
		period int64
		want   time.Duration
	}{
		{4 * time.Second, 10, 4 * time.Second},
		{time.Hour, 30, 30 * time.Second},
		{-time.Hour, 30, 0},
		{time.Second, 0, 0},
		{time.Second, -5, 0},
		{time.Minute, 1 << 62, time.Minute},
	} {
		m := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now.Add(c.due)}, DeletionGracePeriodSeconds: &c.period}
		require.Equal(t, c.want, graceOf(&m, now), "%+v", c)
	}
	require.Zero(t, graceOf(&metav1.ObjectMeta{}, now))
	require.Zero(t, graceOf(&metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now.Add(time.Hour)}}, now))
}

// Limit zero means a page of the content's own size, not all objects.
func TestListLimitsPages(t *testing.T) {
	a := newAPI(t)
	var limit string
	a.before = func(_ http.ResponseWriter, r *http.Request) bool {
		limit = r.URL.Query().Get("limit")
		require.Empty(t, r.URL.Query().Get("resourceVersion"), "not a consistent read")
		return false
	}
	_, err := a.of(podsType, time.Second).List(t.Context(), a.target, 0, "")
	require.NoError(t, err)
	require.Equal(t, "500", limit)
}

// An error blames the page token only if the token caused it.
func TestListTokens(t *testing.T) {
	for _, c := range []struct {
		what string
		code int
		why  metav1.StatusReason
		next string
		is   error
	}{
		{"expired", http.StatusGone, metav1.StatusReasonExpired, "t", deleter.ErrExpired},
		{"gone", http.StatusGone, metav1.StatusReasonGone, "t", deleter.ErrExpired},
		{"gone without a token", http.StatusGone, metav1.StatusReasonExpired, "", nil},
		{"never was", http.StatusBadRequest, metav1.StatusReasonBadRequest, "t", deleter.ErrInvalid},
		{"bad request without a token", http.StatusBadRequest, metav1.StatusReasonBadRequest, "", nil},
		{"server error", http.StatusInternalServerError, metav1.StatusReasonInternalError, "t", nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			a := newAPI(t, pod("a"))
			a.before = onPath("x/pods", func(w http.ResponseWriter) { refuse(w, c.code, c.why, "no") })
			_, err := a.of(podsType, time.Second).List(t.Context(), a.target, 1, c.next)
			var status *apierrors.StatusError
			require.ErrorAs(t, err, &status, "the error does not contain the server's")
			for _, kind := range []error{deleter.ErrExpired, deleter.ErrInvalid} {
				require.Equal(t, kind == c.is, errors.Is(err, kind), "%v", err)
			}
		})
	}
}

// onPath answers requests for a path under namespaces.
func onPath(path string, answer func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/") != path {
			return false
		}
		answer(w)
		return true
	}
}

func TestDelete(t *testing.T) {
	a := newAPI(t, pod("a"), pod("b"), pod("c"))
	for _, kind := range []typeInfo{podsType, oneByOneType} {
		c := a.of(kind, time.Hour)
		require.NoError(t, c.incarnations.confirmRecent(t.Context(), a.target))
		a.asked()
		err := c.Delete(t.Context(), a.target, "a", "uid-of-b")
		require.ErrorIs(t, err, deleter.ErrReplaced)
		require.True(t, apierrors.IsConflict(err), "the error does not contain the server's: %v", err)
		require.NoError(t, c.Delete(t.Context(), a.target, "missing", "uid"))
		require.NoError(t, c.Delete(t.Context(), a.target, "missing", ""))
		require.Equal(t, []string{"a", "b", "c"}, a.names())
		require.Equal(t, []string{"DELETE x/pods/a", "GET x/pods/a", "DELETE x/pods/missing", "GET x/pods/missing"}, a.asked())
	}
	c := a.of(podsType, time.Hour)
	require.NoError(t, c.Delete(t.Context(), a.target, "a", "uid-of-a"))
	require.NoError(t, c.Delete(t.Context(), a.target, "b", ""))
	require.Equal(t, []string{"c"}, a.names())
	require.Equal(t, []string{"GET x", "DELETE x/pods/a", "GET x/pods/b", "GET x", "DELETE x/pods/b"}, a.asked())
}

// If the object of a conflict is gone, the deletion is done.
func TestDeleteConflictOfARemovedObject(t *testing.T) {
	a := newAPI(t, pod("a"))
	a.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		a.mu.Lock()
		a.pods = nil
		a.mu.Unlock()
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "somebody was faster")
		return true
	}
	require.NoError(t, a.of(podsType, time.Hour).Delete(t.Context(), a.target, "a", "uid-of-a"))
}

// Other conflicts and failures are reported. They do not mean that the object was replaced.
func TestDeleteFails(t *testing.T) {
	for _, c := range []struct {
		code int
		why  metav1.StatusReason
		text string
	}{
		{http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified"},
		{http.StatusForbidden, metav1.StatusReasonForbidden, "no"},
		{http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "no"},
		{http.StatusInternalServerError, metav1.StatusReasonInternalError, "broken"},
	} {
		a := newAPI(t, pod("a"))
		a.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodDelete {
				return false
			}
			refuse(w, c.code, c.why, c.text)
			return true
		}
		for _, uid := range []string{"", "uid-of-a"} {
			err := a.of(podsType, time.Hour).Delete(t.Context(), a.target, "a", uid)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.why, apierrors.ReasonForError(err))
			require.NotErrorIs(t, err, deleter.ErrReplaced)
			require.NotErrorIs(t, err, deleter.ErrNotSupported, "the answer must not be remembered")
		}
	}
}

// An object without a known uid is deleted on the basis of a read of the namespace.
func TestDeleteWithoutUID(t *testing.T) {
	nameless := pod("a")
	nameless.UID = ""
	a := newAPI(t, nameless)
	require.NoError(t, a.of(podsType, time.Hour).Delete(t.Context(), a.target, "a", ""))
	require.Empty(t, a.names())
}

func TestDeleteCollection(t *testing.T) {
	a := newAPI(t, pod("a"), pod("b"))
	a.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			body := make([]byte, 1000)
			n, _ := r.Body.Read(body)
			require.JSONEq(t, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, string(body[:n]))
		}
		return false
	}
	deleted, more, err := a.of(podsType, time.Second).DeleteCollection(t.Context(), a.target)
	require.NoError(t, err)
	require.Equal(t, -1, deleted)
	require.False(t, more)
	require.Empty(t, a.names())
	require.Equal(t, []string{"GET x", "DELETE x/pods"}, a.asked())
}

// A request that the verbs of a type exclude is not sent.
func TestVerbs(t *testing.T) {
	a := newAPI(t, pod("a"))
	_, _, err := a.of(oneByOneType, time.Second).DeleteCollection(t.Context(), a.target)
	require.ErrorIs(t, err, deleter.ErrNotSupported)
	c := a.of(podsType, time.Second)
	c.oneByOne = true
	_, _, err = c.DeleteCollection(t.Context(), a.target)
	require.ErrorIs(t, err, deleter.ErrNotSupported)
	err = a.of(typeInfo{gvr: podsType.gvr, verbs: canList | canDeleteCollection}, time.Second).Delete(t.Context(), a.target, "a", "")
	require.ErrorIs(t, err, deleter.ErrNotSupported)
	require.ErrorIs(t, a.of(oneByOneType, time.Second).Wait(t.Context(), a.target, "1"), deleter.ErrNotSupported)
	require.Empty(t, a.asked())
}

// A type that cannot be listed is never observed empty. (Kubernetes treats it as empty and leaves
// its objects behind.)
func TestR7_TypeThatCannotBeListedIsNotEmpty(t *testing.T) {
	a := newAPI(t, pod("a"))
	d, err := deleter.New([]deleter.Source{{Resource: podsResource, Content: a.of(unlistable, time.Second), Final: true}}, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), a.target, deleter.Report{})
	require.ErrorContains(t, err, "pods can be deleted but not listed, so remaining objects cannot be detected: exclude the type with Options.Except")
	require.NotErrorIs(t, err, deleter.ErrNotSupported)
	require.False(t, report.Empty())
	require.Empty(t, report.Clean)
}

// A 404 or 405 in one namespace says nothing about other namespaces (kubernetes/kubernetes PR
// 93790). In the same namespace the request is not repeated.
func TestCollectionsRefusedInOneNamespace(t *testing.T) {
	for _, code := range []int{http.StatusNotFound, http.StatusMethodNotAllowed} {
		a := newAPI(t, pod("a"), pod("b"))
		a.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/x/pods") {
				reason := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 405: metav1.StatusReasonMethodNotAllowed}[code]
				refuse(w, code, reason, "not here")
				return true
			}
			return false
		}
		d, err := deleter.New([]deleter.Source{{Resource: podsResource, Content: a.of(podsType, time.Hour)}}, nil)
		require.NoError(t, err)
		report, err := d.Delete(t.Context(), a.target, deleter.Report{})
		require.NoError(t, err)
		require.True(t, report.Empty())
		require.Equal(t, []string{
			"GET x", "DELETE x/pods", // refused
			"GET x/pods", "GET x", "DELETE x/pods/a", "DELETE x/pods/b", "GET x/pods", // one by one, with the stricter fence
		}, sorted(a.asked(), 4, 6))

		a.pods = []metav1.ObjectMeta{pod("c")}
		_, err = d.Delete(t.Context(), a.target, report)
		require.NoError(t, err)
		require.NotContains(t, a.asked(), "DELETE x/pods", "the request was refused in this namespace before")

		other := a.target
		other.Namespace = "y"
		a.pods = []metav1.ObjectMeta{pod("d")}
		_, err = d.Delete(t.Context(), other, deleter.Report{})
		require.NoError(t, err)
		require.Contains(t, a.asked(), "DELETE y/pods")
	}
}

// sorted sorts requests[from:to], whose order is not determined.
func sorted(requests []string, from, to int) []string {
	if to > len(requests) {
		return requests
	}
	part := requests[from:to]
	if len(part) == 2 && part[0] > part[1] {
		part[0], part[1] = part[1], part[0]
	}
	return requests
}

// A 404 for a listing may mean that the type, and so its content, is gone. Only a discovery that
// began after it can confirm that.
func TestListOfAMissingType(t *testing.T) {
	broken := errors.New("discovery failed")
	for _, c := range []struct {
		what   string
		absent bool
		err    error
		fails  bool
	}{
		{"the type is gone", true, nil, false},
		{"the type is there", false, nil, true},
		{"nobody knows", false, broken, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			a := newAPI(t)
			a.before = onPath("x/pods", func(w http.ResponseWriter) { refuse(w, 404, metav1.StatusReasonNotFound, "no such thing") })
			asked := 0
			absent := func(context.Context, namespace.ResourceType) (bool, error) { asked++; return c.absent, c.err }
			page, err := newContent(podsType, a.content, a.fences(time.Hour), absent, false).List(t.Context(), a.target, 0, "")
			require.Equal(t, 1, asked)
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, deleter.Page{}, page)
			if c.fails {
				require.ErrorContains(t, err, "no such thing")
				require.True(t, apierrors.IsNotFound(err))
			}
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			}
		})
	}
	t.Run("the namespace is gone", func(t *testing.T) {
		a := newAPI(t)
		a.before = onPath("x/pods", func(w http.ResponseWriter) {
			a.mu.Lock()
			a.uid = ""
			a.mu.Unlock()
			refuse(w, 404, metav1.StatusReasonNotFound, "no such thing")
		})
		absent := func(context.Context, namespace.ResourceType) (bool, error) { t.Error("asked"); return true, nil }
		_, err := newContent(podsType, a.content, a.fences(time.Hour), absent, false).List(t.Context(), a.target, 0, "")
		require.ErrorIs(t, err, deleter.ErrIncarnation)
	})
}
