package authorization_test

import (
	"context"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

func ExampleGrants() {
	list, err := authorization.Parse([]byte(`
grants:
- users: [alice]
  namespaces: [blue]
  rules: [{verbs: [get, list], resources: [configmaps]}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := authorization.New(list)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, ns := range []string{"blue", "red"} {
		a := authorization.Attributes{User: authorization.User{Name: "alice"}, Verb: "list", Resource: "configmaps", Namespace: ns}
		d, err := g.Authorize(context.Background(), a)
		fmt.Println(d.Allowed, err)
		if !d.Allowed {
			fmt.Println(authorization.Forbidden(a, d.Reason))
		}
	}
	// Output:
	// true <nil>
	// false <nil>
	// configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace "red"
}
