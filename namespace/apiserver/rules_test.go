package apiserver_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestR1_RemovedOnlyWithoutFinalizers(t *testing.T) {
	e := newEnv(t, nil)
	e.must(http.StatusCreated, "POST", all, `{"metadata":{"name":"x","finalizers":["example.com/own"]},"spec":{"finalizers":["example.com/a"]}}`)
	e.must(http.StatusOK, "PUT", x+"/finalize", `{"metadata":{"name":"x"}}`)
	require.Equal(t, "Active", e.must(http.StatusOK, "GET", x, "").text("status", "phase"))
	e.must(http.StatusOK, "DELETE", x, "")
	e.must(http.StatusOK, "GET", x, "")
	e.must(http.StatusOK, "PUT", x, `{"metadata":{"name":"x"}}`) // removes metadata.finalizers
	e.must(http.StatusNotFound, "GET", x, "")
}

func TestR2_PhaseIsDerived(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	phase := func() string { return e.must(http.StatusOK, "GET", x, "").text("status", "phase") }
	e.must(http.StatusOK, "PUT", x, `{"metadata":{"name":"x"},"status":{"phase":"Terminating"}}`)
	require.Equal(t, "Active", phase())
	e.must(http.StatusUnprocessableEntity, "PUT", x+"/status", `{"metadata":{"name":"x"},"status":{"phase":"Terminating"}}`)
	require.Equal(t, "Active", phase())
	e.must(http.StatusOK, "DELETE", x, "")
	require.Equal(t, "Terminating", phase())
	e.must(http.StatusUnprocessableEntity, "PUT", x+"/status", `{"metadata":{"name":"x"},"status":{"phase":"Active"}}`)
	e.must(http.StatusOK, "PUT", x, `{"metadata":{"name":"x"},"status":{"phase":"Active"}}`)
	e.must(http.StatusOK, "PUT", x+"/finalize", `{"metadata":{"name":"x"},"spec":{"finalizers":["kubernetes","example.com/a"]},"status":{"phase":"Active"}}`)
	require.Equal(t, "Terminating", phase())
}

func TestR3_DeletionTimestampNeverChanges(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	stamp := e.must(http.StatusOK, "DELETE", x, "").text("metadata", "deletionTimestamp")
	for _, request := range [][3]string{
		{"DELETE", x, ""},
		{"PUT", x, `{"metadata":{"name":"x"}}`},
		{"PUT", x, `{"metadata":{"name":"x","deletionTimestamp":"2001-01-01T00:00:00Z"}}`},
		{"PUT", x + "/status", `{"metadata":{"name":"x","deletionTimestamp":null},"status":{}}`},
		{"PUT", x + "/finalize", `{"metadata":{"name":"x","deletionTimestamp":null},"spec":{"finalizers":["kubernetes"]}}`},
	} {
		a := e.must(http.StatusOK, request[0], request[1], request[2])
		require.Equal(t, stamp, a.text("metadata", "deletionTimestamp"), request)
	}
}

func TestR4_OnlyFinalizeChangesFinalizers(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	want := []any{"kubernetes"}
	for _, request := range [][2]string{
		{"PUT", x},
		{"PUT", x + "/status"},
	} {
		for _, spec := range []string{`{"finalizers":[]}`, `{"finalizers":["example.com/a","kubernetes"]}`, `{}`, `null`} {
			a := e.must(http.StatusOK, request[0], request[1], `{"metadata":{"name":"x"},"spec":`+spec+`}`)
			require.Equal(t, want, a.get("spec", "finalizers"), "%v %s", request, spec)
		}
	}
	for _, method := range []string{"PUT", "POST"} {
		a := e.must(http.StatusOK, method, x+"/finalize", `{"metadata":{"name":"x"},"spec":{"finalizers":["example.com/`+method+`"]}}`)
		require.Equal(t, []any{"example.com/" + method}, a.get("spec", "finalizers"))
	}
	e.must(http.StatusNotFound, "PUT", maps+"/a/finalize", `{"metadata":{"name":"a"}}`)
}

// TestR6_NoContentInATerminatingNamespace creates content concurrently while the namespace is
// deleted. A list after the DELETE contains every acknowledged object, and no object is created
// later.
func TestR6_NoContentInATerminatingNamespace(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	const writers, each = 8, 50
	var made atomic.Int64
	var all sync.WaitGroup
	begun := make(chan struct{}, writers*each)
	for w := range writers {
		all.Go(func() {
			for i := range each {
				a := e.do("POST", maps, fmt.Sprintf(`{"metadata":{"name":"a-%d-%d"}}`, w, i))
				begun <- struct{}{}
				switch a.Code {
				case http.StatusCreated:
					made.Add(1)
				case http.StatusForbidden:
					if a.text("details", "kind") != "configmaps" {
						t.Errorf("refused with %s", a.Body)
					}
				default:
					t.Errorf("created with %d: %s", a.Code, a.Body)
				}
			}
		})
	}
	for range writers * each / 4 {
		<-begun
	}
	e.must(http.StatusOK, "DELETE", x, "")
	final := names(e.must(http.StatusOK, "GET", maps, ""))
	all.Wait()
	require.Len(t, names(e.must(http.StatusOK, "GET", maps, "")), len(final), "content was created after the deletion")
	require.Len(t, final, int(made.Load()), "an acknowledged object is not in the list")
	e.must(http.StatusForbidden, "POST", maps+"?dryRun=All", `{"metadata":{"name":"late"}}`)
	e.must(http.StatusOK, "DELETE", maps, "")
	e.must(http.StatusOK, "PUT", x+"/finalize", `{"metadata":{"name":"x"}}`)
}

func TestR8_AnotherIncarnationIsNotTouched(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	old := e.must(http.StatusOK, "GET", x, "").text("metadata", "uid")
	e.must(http.StatusOK, "PUT", x+"/finalize", `{"metadata":{"name":"x"}}`)
	e.must(http.StatusOK, "DELETE", x, "")
	e.namespace("x")
	before := e.contents()
	e.must(http.StatusConflict, "DELETE", x, `{"preconditions":{"uid":"`+old+`"}}`)
	for _, target := range []string{x, x + "/status", x + "/finalize"} {
		e.must(http.StatusConflict, "PUT", target, `{"metadata":{"name":"x","uid":"`+old+`"},"spec":{"finalizers":[]},"status":{"conditions":[{"type":"T","status":"True"}]}}`)
	}
	e.must(http.StatusConflict, "PATCH", x, `{"metadata":{"uid":"`+old+`","labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	require.Equal(t, before, e.contents())
}
