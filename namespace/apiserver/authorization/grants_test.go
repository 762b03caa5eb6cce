package authorization_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

func user(name string, groups ...string) authorization.User {
	return authorization.User{Name: name, Groups: groups}
}

// ask reads "alice get widgets.example.com/status in x".
func ask(t testing.TB, g *authorization.Grants, text string, groups ...string) bool {
	t.Helper()
	words := strings.Fields(text)
	a := authorization.Attributes{User: user(words[0], groups...), Verb: words[1]}
	if strings.HasPrefix(words[2], "/") {
		a.Path = words[2]
	} else {
		resource, sub, _ := strings.Cut(words[2], "/")
		a.Resource, a.Group, _ = strings.Cut(resource, ".")
		a.Subresource = sub
	}
	if len(words) > 4 {
		a.Namespace = words[4]
	}
	d, err := g.Authorize(t.Context(), a)
	require.NoError(t, err)
	require.Empty(t, d.Reason)
	return d.Allowed
}

const everything = `
grants:
- users: [root]
  groups: [admins]
  cluster: true
  rules: [{verbs: ["*"], resources: ["*"]}]
- users: [alice]
  namespaces: [x, "y"]
  rules:
  - {verbs: [get, list], resources: [configmaps, namespaces]}
  - {verbs: ["*"], resources: [widgets.example.com, "*/status"]}
- groups: [finalizers]
  cluster: true
  rules: [{verbs: [update], resources: [namespaces/finalize]}]
- groups: [example]
  namespaces: [x]
  rules: [{verbs: [get], resources: ["*.example.com"]}]
- groups: ["system:authenticated"]
  paths: [/version, "/api*"]
- users: ["*"]
  paths: [/healthz]
- users: ["system:anonymous"]
  namespaces: [open]
  rules: [{verbs: [get], resources: [configmaps]}]
`

func grants(t testing.TB, text string) *authorization.Grants {
	t.Helper()
	list, err := authorization.Parse([]byte(text))
	require.NoError(t, err)
	g, err := authorization.New(list)
	require.NoError(t, err)
	return g
}

func TestGrants(t *testing.T) {
	g := grants(t, everything)
	for _, c := range []struct {
		ask    string
		groups []string
		want   bool
	}{
		{"root delete namespaces in x", nil, true},
		{"root list secrets", nil, true},
		{"root update namespaces/finalize in x", nil, true},
		{"bob list secrets", []string{"other", "admins"}, true},
		{"bob list secrets", []string{"system:masters"}, false},
		{"alice get configmaps in x", nil, true},
		{"alice get configmaps in y", nil, true},
		{"alice get configmaps in z", nil, false},
		{"alice get configmaps", nil, false}, // get -A
		{"alice list namespaces", nil, false},
		{"alice create namespaces", nil, false},
		{"alice get namespaces in x", nil, true},
		{"alice delete namespaces in x", nil, false},
		{"alice watch configmaps in x", nil, false},
		{"alice create configmaps in x", nil, false},
		{"alice get secrets in x", nil, false},
		{"alice deletecollection widgets.example.com in x", nil, true},
		{"alice get widgets.example.org in x", nil, false},
		{"alice get widgets in x", nil, false},
		{"alice update widgets.example.com/status in x", nil, true},
		{"alice update namespaces/status in y", nil, true},
		{"alice update namespaces/finalize in y", nil, false},
		{"alice get widgets.example.com/log in x", nil, false},
		{"carol update namespaces/finalize in any", []string{"finalizers"}, true},
		{"carol update namespaces in any", []string{"finalizers"}, false},
		{"carol patch namespaces/finalize in any", []string{"finalizers"}, false},
		{"carol get gadgets.example.com in x", []string{"example"}, true},
		{"carol get gadgets.sub.example.com in x", []string{"example"}, false},
		{"carol get gadgets.example.com/status in x", []string{"example"}, false},
		{"carol get configmaps in x", []string{"example"}, false},
		{"dave get /version", nil, true},
		{"dave get /apis/example.com", nil, true},
		{"dave head /api", nil, true},
		{"dave post /api", nil, false},
		{"dave get /metrics", nil, false},
		{"dave get /healthz/more", nil, false},
		{"system:anonymous get /healthz", nil, true},
		{"system:anonymous get /version", []string{"system:authenticated"}, false},
		{"system:anonymous get configmaps in open", nil, true},
		{"dave get configmaps in open", nil, false},
		{"* get configmaps in x", nil, false},
		{"alice * configmaps in x", nil, false},
		{"alice get * in x", nil, false},
	} {
		require.Equal(t, c.want, ask(t, g, c.ask, c.groups...), "%s %v", c.ask, c.groups)
	}
	d, err := g.Authorize(t.Context(), authorization.Attributes{Verb: "get", Path: "/healthz"})
	require.NoError(t, err)
	require.True(t, d.Allowed, "unknown user")
	d, err = g.Authorize(t.Context(), authorization.Attributes{})
	require.NoError(t, err)
	require.False(t, d.Allowed)
}

func TestGrantsDenyByDefault(t *testing.T) {
	none, err := authorization.New(nil)
	require.NoError(t, err)
	for _, g := range []*authorization.Grants{none, {}} {
		for _, text := range []string{"root get namespaces in x", "root list namespaces", "root get /healthz"} {
			require.False(t, ask(t, g, text, "system:masters", "system:authenticated"))
		}
	}
}

func TestForbidden(t *testing.T) {
	alice := user("alice")
	for want, a := range map[string]authorization.Attributes{
		`namespaces "x" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "x"`:                                {User: alice, Verb: "get", Resource: "namespaces", Namespace: "x", Name: "x"},
		`namespaces is forbidden: User "alice" cannot list resource "namespaces" in API group "" at the cluster scope`:                                   {User: alice, Verb: "list", Resource: "namespaces"},
		`namespaces "x" is forbidden: User "alice" cannot update resource "namespaces/finalize" in API group "" in the namespace "x"`:                    {User: alice, Verb: "update", Resource: "namespaces", Subresource: "finalize", Namespace: "x", Name: "x"},
		`widgets.example.com "w" is forbidden: User "system:anonymous" cannot delete resource "widgets" in API group "example.com" in the namespace "x"`: {User: user("system:anonymous"), Verb: "delete", Group: "example.com", Resource: "widgets", Namespace: "x", Name: "w"},
		`widgets.example.com is forbidden: User "alice" cannot deletecollection resource "widgets" in API group "example.com" in the namespace "x"`:      {User: alice, Verb: "deletecollection", Group: "example.com", Resource: "widgets", Namespace: "x"},
		`forbidden: User "alice" cannot get path "/metrics"`:                                                                                             {User: alice, Verb: "get", Path: "/metrics"},
	} {
		err := authorization.Forbidden(a, "")
		require.Equal(t, want, err.Error())
		require.ErrorIs(t, err, namespace.ErrForbidden)
		require.Equal(t, a.Name, err.Name)
		require.Equal(t, want+": closed", authorization.Forbidden(a, "closed").Error())
	}
}

func TestReplace(t *testing.T) {
	g := grants(t, everything)
	err := g.Replace([]authorization.Grant{{Users: []string{"alice"}}})
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.True(t, ask(t, g, "alice get configmaps in x"), "an invalid list changes nothing")

	list := []authorization.Grant{{
		Users: []string{"bob"}, Namespaces: []string{"x"},
		Rules: []authorization.Rule{{Verbs: []string{"get"}, Resources: []string{"configmaps"}}},
	}}
	require.NoError(t, g.Replace(list))
	list[0].Users[0], list[0].Namespaces[0] = "alice", "y"
	list[0].Rules[0].Verbs[0] = "*"
	require.False(t, ask(t, g, "alice get configmaps in x"))
	require.True(t, ask(t, g, "bob get configmaps in x"))
	require.False(t, ask(t, g, "bob list configmaps in x"), "the list was copied")
}

// A request is decided by one list or the other, never by parts of both.
func TestReplaceUnderLoad(t *testing.T) {
	rule := []authorization.Rule{{Verbs: []string{"get"}, Resources: []string{"configmaps"}}}
	lists := [2][]authorization.Grant{
		{{Users: []string{"a"}, Namespaces: []string{"x"}, Rules: rule}},
		{{Users: []string{"b"}, Namespaces: []string{"y"}, Rules: rule}},
	}
	g, err := authorization.New(lists[0])
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for ctx.Err() == nil {
				if ask(t, g, "a get configmaps in y") || ask(t, g, "b get configmaps in x") {
					t.Error("parts of two lists were mixed")
					return
				}
			}
		})
	}
	for i := range 500 {
		require.NoError(t, g.Replace(lists[i%2]))
	}
	stop()
	running.Wait()
}

func TestBadInput(t *testing.T) {
	rules := []authorization.Rule{{Verbs: []string{"get"}, Resources: []string{"configmaps"}}}
	good := authorization.Grant{Users: []string{"a"}, Namespaces: []string{"x"}, Rules: rules}
	of := func(change func(*authorization.Grant)) []authorization.Grant {
		g := good
		change(&g)
		return []authorization.Grant{good, g}
	}
	long := strings.Repeat("x", 2000)
	rule := func(verb, resource string) func(*authorization.Grant) {
		return func(g *authorization.Grant) {
			g.Rules = []authorization.Rule{rules[0], {Verbs: []string{verb}, Resources: []string{resource}}}
		}
	}
	for field, changes := range map[string][]func(*authorization.Grant){
		"grants[1]": {
			func(g *authorization.Grant) { g.Users = nil },
			func(g *authorization.Grant) { g.Rules = nil },
			func(g *authorization.Grant) { g.Namespaces = nil },
			func(g *authorization.Grant) { g.Namespaces, g.Rules = nil, nil },
		},
		"grants[1].users[1]": {
			func(g *authorization.Grant) { g.Users = []string{"a", ""} },
			func(g *authorization.Grant) { g.Users = []string{"a", "\xff"} },
		},
		"grants[1].groups[0]":     {func(g *authorization.Grant) { g.Groups = []string{""} }},
		"grants[1].groups":        {func(g *authorization.Grant) { g.Groups = []string{"*"} }},
		"grants[1].namespaces[0]": {func(g *authorization.Grant) { g.Namespaces = []string{"*"} }, func(g *authorization.Grant) { g.Namespaces = []string{"a/../b"} }},
		"grants[1].rules[0]":      {func(g *authorization.Grant) { g.Rules = []authorization.Rule{{}} }},
		"grants[1].rules[1].verbs[0]": {
			rule("GET", "x"), rule("", "x"), rule("escalate", "x"), rule(long, "x"),
		},
		"grants[1].rules[1].resources[0]": {
			rule("get", ""), rule("get", "ConfigMaps"), rule("get", "a/b/c"), rule("get", "a/"), rule("get", "/a"), rule("get", "*.*"),
			rule("get", "*.example.com/status"), rule("get", "a/b.c"), rule("get", "a..b"), rule("get", "**"), rule("get", "a/*"),
		},
		"grants[1].paths[0]": {
			func(g *authorization.Grant) { g.Paths = []string{"healthz"} },
			func(g *authorization.Grant) { g.Paths = []string{"/a*/b"} },
			func(g *authorization.Grant) { g.Paths = []string{""} },
		},
	} {
		for i, change := range changes {
			_, err := authorization.New(of(change))
			var typed *namespace.Error
			require.ErrorAs(t, err, &typed, "%s %d", field, i)
			require.ErrorIs(t, err, namespace.ErrInvalid)
			require.Empty(t, cmp.Diff(field, typed.Causes[0].Field), "%d: %v", i, err)
			require.Contains(t, err.Error(), field)
			require.Less(t, len(err.Error()), 500)
		}
	}
	for _, text := range []string{"{", "grants: 1", "grant: []", "grants: [{user: [a]}]", "grants: []\ngrants: []", "\xff"} {
		_, err := authorization.Parse([]byte(text))
		require.ErrorIs(t, err, namespace.ErrInvalid, "%.20q", text)
	}
}

// FuzzGrants: every valid list decides without a crash, and only allows users and groups that
// it names.
func FuzzGrants(f *testing.F) {
	f.Add(everything, "alice", "get", "x", "configmaps", "example.com", "status", "/api")
	f.Add(`{"grants":[{"users":["a"],"cluster":true,"rules":[{"verbs":["*"],"resources":["*"]}]}]}`, "a", "*", "", "*", "", "", "")
	f.Fuzz(func(t *testing.T, text, name, verb, ns, resource, group, sub, path string) {
		list, err := authorization.Parse([]byte(text))
		if err != nil {
			require.ErrorIs(t, err, namespace.ErrInvalid)
			return
		}
		g, err := authorization.New(list)
		if err != nil {
			require.ErrorIs(t, err, namespace.ErrInvalid)
			return
		}
		a := authorization.Attributes{
			User: user(name, "g"), Verb: verb, Namespace: ns, Resource: resource, Group: group, Subresource: sub, Path: path,
		}
		d, err := g.Authorize(t.Context(), a)
		require.NoError(t, err)
		if d.Allowed && !strings.Contains(text, `"`) && !strings.Contains(text, "*") {
			require.True(t, named(list, name), "%q was never named", name)
		}
	})
}

// named reports whether a list names a user, the group g, or everybody known.
func named(list []authorization.Grant, name string) bool {
	for _, g := range list {
		for _, subject := range append(append([]string{}, g.Users...), g.Groups...) {
			if subject == name || subject == "g" || subject == authorization.Authenticated || subject == authorization.Anonymous || subject == authorization.Any {
				return true
			}
		}
	}
	return false
}

func BenchmarkGrants(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n, "grants"), func(b *testing.B) {
			var list []authorization.Grant
			for i := range n {
				list = append(list, authorization.Grant{
					Groups: []string{fmt.Sprint("team-", i)}, Namespaces: []string{fmt.Sprint("ns-", i)},
					Rules: []authorization.Rule{{Verbs: []string{"get", "list"}, Resources: []string{"configmaps", "secrets"}}},
				})
			}
			g, err := authorization.New(list)
			require.NoError(b, err)
			a := authorization.Attributes{User: user("u", "everybody", "team-7"), Verb: "get", Resource: "secrets", Namespace: "ns-7", Name: "s"}
			b.ReportAllocs()
			for b.Loop() {
				if d, _ := g.Authorize(b.Context(), a); !d.Allowed {
					b.Fatal("denied")
				}
			}
		})
	}
}
