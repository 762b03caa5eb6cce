package pass_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// primaryHost is a host that adds a finalizer of its own.
type primaryHost struct {
	*controllertest.Host
	own namespace.Party
}

func (h primaryHost) Party() namespace.Party { return h.own }

// Only the host configures the finalizer that it adds.
func TestPartyOfTheHost(t *testing.T) {
	acme := namespace.Party{Finalizer: "example.com/acme", Primary: true}
	host := &controllertest.Host{}
	for _, row := range []struct {
		name       string
		namespaces pass.Namespaces
		party      namespace.Party
		want       namespace.Party
		refusal    string
	}{
		{"none", primaryHost{host, acme}, namespace.Party{}, acme, ""},
		{"the same", primaryHost{host, acme}, namespace.Party{Finalizer: acme.Finalizer}, acme, ""},
		{"an additional one", primaryHost{host, acme}, origin, origin, ""},
		{"a second primary", primaryHost{host, acme}, namespace.Party{Finalizer: origin.Finalizer, Primary: true}, namespace.Party{},
			`finalizer "openshift.com/origin" cannot be primary: every namespace of this host has the finalizer "example.com/acme", ` +
				`whose owner is the primary party; leave Party.Finalizer empty to act as that party`},
		{"kubernetes beside another", primaryHost{host, acme}, kubernetes, namespace.Party{},
			`finalizer "kubernetes" cannot be primary: every namespace of this host has the finalizer "example.com/acme", ` +
				`whose owner is the primary party; leave Party.Finalizer empty to act as that party`},
		{"an invalid one", primaryHost{host, acme}, namespace.Party{Finalizer: "../x"}, namespace.Party{}, `the party's finalizer "../x" is not valid: `},
		{"an invalid one of the host", primaryHost{host, namespace.Party{}}, namespace.Party{}, namespace.Party{}, `the party's finalizer "" is not valid: `},
		{"none, of another host", host, namespace.Party{}, namespace.Party{}, `the party's finalizer "" is not valid: `},
		{"any, of another host", host, origin, origin, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			party, err := pass.PartyOf(row.namespaces, row.party)
			_, ran := pass.Run(t.Context(), row.namespaces, nothingLeft, row.party, pass.Request{Name: "none"})
			if row.refusal == "" {
				require.NoError(t, err)
				require.Equal(t, row.want, party)
				require.NoError(t, ran)
				return
			}
			require.ErrorIs(t, err, namespace.ErrBadRequest)
			require.ErrorContains(t, err, row.refusal)
			require.ErrorIs(t, ran, namespace.ErrBadRequest)
		})
	}
}
