package main

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

func TestMain(m *testing.M) { programs.Main(m, main) }

func TestConduct(t *testing.T) { programs.Conduct{}.Check(t) } // it ends too soon to be interrupted

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	want, err := os.ReadFile("testdata/output.txt")
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestTenants(t *testing.T) {
	controllertest.Run(t, func(*testing.T) controllertest.Backend {
		host := newTenants()
		return controllertest.Backend{Namespaces: host, Create: host.create, Delete: host.remove}
	})
}

// The table enforces declarations: protections refuse deletion, a grace puts it on hold.
func TestDeclarations(t *testing.T) {
	key, value, err := declare.Protection{Name: "legal", Owner: "team-a", Reason: "contract until May"}.Annotation()
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		annotations map[string]string
		after       time.Duration // the deletion begins
		refused     error
	}{
		"none":       {nil, 0, nil},
		"protection": {map[string]string{key: value}, 0, namespace.ErrForbidden},
		"grace":      {map[string]string{declare.GraceAnnotation: "1h"}, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := newTenants()
				_, err := host.create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "acme", Annotations: tt.annotations}})
				require.NoError(t, err)
				state := func() namespace.Namespace {
					ns, err := host.Get(t.Context(), "acme")
					require.NoError(t, err)
					return ns
				}
				require.ErrorIs(t, host.remove(t.Context(), "acme"), tt.refused)
				if tt.refused != nil {
					require.Equal(t, phase.Active, state().Phase())
					return
				}
				if tt.after > 0 {
					before := state()
					require.Equal(t, phase.Active, before.Phase())
					_, held, err := declare.HoldOf(before.Meta)
					require.NoError(t, err)
					require.True(t, held)
					require.NoError(t, host.remove(t.Context(), "acme"))
					require.Equal(t, before, state(), "while it is on hold nothing changes")
					time.Sleep(tt.after + time.Second) // holds end at full seconds
					require.NoError(t, host.remove(t.Context(), "acme"))
				}
				deleted := state()
				require.Equal(t, phase.Terminating, deleted.Phase())
				time.Sleep(time.Second)
				require.NoError(t, host.remove(t.Context(), "acme"))
				require.Equal(t, deleted, state(), "rule R3")
			})
		})
	}
}

func TestR1_RemovedAtOnce(t *testing.T) {
	host := newTenants()
	ns, err := host.create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "acme"}})
	require.NoError(t, err)
	ns.Spec.Finalizers = finalizer.Set{}
	_, err = host.Finalize(t.Context(), ns)
	require.NoError(t, err)
	require.NoError(t, host.remove(t.Context(), "acme"))
	_, err = host.Get(t.Context(), "acme")
	require.ErrorIs(t, err, namespace.ErrNotFound)
}
