package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// DELETE of a namespace with a grace answers it as it is then, Active and on hold, and
// warns that it is so; what does not put it on hold, and what deletes it, warns of nothing.
func TestDeletionOnHold(t *testing.T) {
	const at = "/api/v1/namespaces/x"
	e := newEnv(t, nil)
	e.must(http.StatusCreated, "POST", "/api/v1/namespaces", `{"metadata":{"name":"x","annotations":{"nslifecycle.io/deletion-grace":"24h"}}}`)
	for _, target := range []string{at + "?dryRun=All", at, at} {
		a := e.must(http.StatusOK, "DELETE", target, "")
		require.Contains(t, a.Body, `"phase":"Active"`)
		require.Contains(t, a.Body, `"nslifecycle.io/delete-after":`)
		require.Len(t, a.Header.Values("Warning"), 1)
		require.Regexp(t, `^299 - "namespaces \\"x\\" is not deleted yet: it is on hold until 2\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ; take off the annotation nslifecycle.io/delete-after to restore it"$`,
			a.Header.Get("Warning"))
	}
	a := e.must(http.StatusOK, "PATCH", at, `{"metadata":{"annotations":{"nslifecycle.io/delete-after":"{\"until\":\"2020-01-02T03:04:05Z\"}"}}}`,
		"Content-Type", "application/merge-patch+json")
	require.Empty(t, a.Header.Values("Warning"))
	a = e.must(http.StatusOK, "DELETE", at, "")
	require.Contains(t, a.Body, `"phase":"Terminating"`)
	require.Empty(t, a.Header.Values("Warning"), "its time had come")
}
