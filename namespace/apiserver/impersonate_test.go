package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// TestImpersonation checks that a request with impersonation has exactly the permissions of the
// impersonated user, or is refused.
func TestImpersonation(t *testing.T) {
	list, err := authorization.Parse([]byte(`
grants:
- users: [root]
  cluster: true
  rules: [{verbs: ["*"], resources: ["*"]}]
- users: [support]
  cluster: true
  rules: [{verbs: [impersonate], resources: [users]}]
- users: [tenant]
  namespaces: [x]
  rules: [{verbs: ["*"], resources: ["*"]}]
- groups: [readers]
  cluster: true
  rules: [{verbs: [list], resources: [namespaces]}]
`))
	require.NoError(t, err)
	grants, err := authorization.New(list)
	require.NoError(t, err)
	var served []apiserver.Served
	e := newEnv(t, &apiserver.Options{Authenticate: byHeader, Authorizer: grants, Hooks: apiserver.Hooks{
		Served: func(s apiserver.Served) { served = append(served, s) },
	}})
	e.must(http.StatusCreated, "POST", "/api/v1/namespaces", `{"metadata":{"name":"x"}}`, "User", "root")
	const user, group = "Impersonate-User", "Impersonate-Group"
	for _, tt := range []struct {
		name, user, target string
		headers            []string
		code               int
		message            string
	}{
		{"nobody has fewer rights", "root", all, []string{user, "nobody"}, 403, `User "nobody" cannot list`},
		{"a tenant", "root", maps, []string{user, "tenant"}, 200, ""},
		{"a tenant, by a user with that permission alone", "support", maps, []string{user, "tenant"}, 200, ""},
		{"that permission alone", "support", maps, nil, 403, `User "support" cannot list`},
		{"a group", "root", all, []string{user, "nobody", group, "others", group, "readers"}, 200, ""},
		{"a group without permission", "support", all, []string{user, "nobody", group, "readers"}, 403, `groups "readers" is forbidden: User "support" cannot impersonate resource "groups"`},
		{"without permission", "tenant", maps, []string{user, "root"}, 403, `users "root" is forbidden: User "tenant" cannot impersonate resource "users" in API group "" at the cluster scope`},
		{"oneself without permission", "tenant", maps, []string{user, "tenant"}, 403, "cannot impersonate"},
		{"without a name", "", maps, []string{user, "tenant"}, 403, `User "system:anonymous" cannot impersonate`},
		{"no path needs less", "tenant", "/healthz", []string{user, "root"}, 403, "cannot impersonate"},
		{"a group alone", "root", all, []string{group, "readers"}, 400, "exactly one user"},
		{"two users", "root", all, []string{user, "tenant", user, "root"}, 400, "exactly one user"},
		{"an empty name", "root", all, []string{user, ""}, 400, "exactly one user"},
		{"a uid", "root", all, []string{user, "tenant", "Impersonate-Uid", "1"}, 403, "Impersonate-Uid is not supported"},
		{"extra attributes", "root", all, []string{user, "tenant", "Impersonate-Extra-Scopes", "view"}, 403, "Impersonate-Extra-Scopes is not supported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			served = nil
			a := e.do("GET", tt.target, "", append([]string{"User", tt.user}, tt.headers...)...)
			require.Equal(t, tt.code, a.Code, a.Body)
			if tt.code == http.StatusOK {
				if tt.headers != nil {
					require.Equal(t, tt.user, served[0].Attributes.User.ImpersonatedBy)
					require.NotEqual(t, tt.user, served[0].Attributes.User.Name)
				}
				return
			}
			require.Contains(t, a.text("message"), tt.message)
		})
	}
}

// TestDeclarationsAreOnRecordByUser checks that the audit record of a declaration names the
// authenticated user and the impersonated user.
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
