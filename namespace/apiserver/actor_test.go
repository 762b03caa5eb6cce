package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// A declaration is on record under the name that was authenticated, and under the name of
// the user that it acted as.
func TestDeclarationsAreOnRecordByUser(t *testing.T) {
	e := newEnv(t, &apiserver.Options{Authenticate: byHeader})
	const key = declare.ProtectionPrefix + "legal"
	e.must(http.StatusCreated, "POST", "/api/v1/namespaces",
		`{"metadata":{"name":"x","annotations":{"`+key+`":"{\"owner\":\"ada\",\"reason\":\"contract\"}"}}}`, "User", "ada", "Impersonate-User", "root")
	e.must(http.StatusOK, "PATCH", "/api/v1/namespaces/x", `{"metadata":{"annotations":{"`+key+`":null}}}`,
		"User", "bob", "Content-Type", "application/merge-patch+json")
	log, err := audit.New(e.store, nil)
	require.NoError(t, err)
	records, err := log.List(t.Context(), "x")
	require.NoError(t, err)
	require.Len(t, records, 2)
	require.Equal(t, `ada, impersonating "root"`, records[0].By)
	require.Equal(t, "bob", records[1].By)
}
