package pass_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

var (
	kubernetes = namespace.Party{Finalizer: finalizer.Kubernetes}
	origin     = namespace.Party{Finalizer: "openshift.com/origin"}

	pods    = namespace.ResourceType{Name: "pods"}
	widgets = namespace.ResourceType{Group: "example.com", Name: "widgets"}
)

// deleterFunc is a Deleter of one function.
type deleterFunc func(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error)

func (f deleterFunc) Delete(ctx context.Context, target deleter.Target, previous deleter.Report) (deleter.Report, error) {
	return f(ctx, target, previous)
}

// sees is a Deleter that always reports the same.
func sees(report deleter.Report, err error) deleter.Deleter {
	return deleterFunc(func(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) { return report, err })
}

func left(resource namespace.ResourceType, n int) deleter.Report {
	return deleter.Report{Results: []deleter.Result{{Resource: resource, Remaining: n}}}
}

var nothingLeft = sees(deleter.Report{Results: []deleter.Result{{Resource: pods}}}, nil)

// create adds an active namespace.
func create(t *testing.T, h *controllertest.Host, name string, finalizers ...finalizer.Name) namespace.Namespace {
	t.Helper()
	ns, err := h.Create(t.Context(), namespace.Namespace{
		Meta: namespace.Meta{Name: name},
		Spec: namespace.Spec{Finalizers: finalizer.NewSet(finalizers...)},
	})
	require.NoError(t, err)
	return ns
}

// terminate creates and deletes a namespace.
func terminate(t *testing.T, h *controllertest.Host, name string, finalizers ...finalizer.Name) namespace.Namespace {
	t.Helper()
	create(t, h, name, finalizers...)
	ns, err := h.Delete(t.Context(), name)
	require.NoError(t, err)
	return ns
}

// hosted returns the namespace as it is stored.
func hosted(t *testing.T, h *controllertest.Host, name string) namespace.Namespace {
	t.Helper()
	ns, err := h.Get(context.WithoutCancel(t.Context()), name)
	require.NoError(t, err)
	return ns
}

// setFinalizers replaces the stored spec.finalizers.
func setFinalizers(t *testing.T, h *controllertest.Host, name string, finalizers ...finalizer.Name) {
	t.Helper()
	ns := hosted(t, h, name)
	ns.Spec.Finalizers = finalizer.NewSet(finalizers...)
	_, err := h.Finalize(t.Context(), ns)
	require.NoError(t, err)
}

// statuses returns the status of each of the five conditions of ns.
func statuses(ns namespace.Namespace) map[phase.ConditionType]phase.ConditionStatus {
	m := map[phase.ConditionType]phase.ConditionStatus{}
	for _, c := range ns.Status.Conditions {
		if c.Type != phase.ContentLastSeen {
			m[c.Type] = c.Status
		}
	}
	return m
}

func message(ns namespace.Namespace, t phase.ConditionType) string {
	for _, c := range ns.Status.Conditions {
		if c.Type == t {
			return c.Message
		}
	}
	return ""
}

// counting returns h behind a count of the calls of each kind.
func counting(h *controllertest.Host) (*controllertest.Intercept, map[controllertest.Op]int) {
	calls := map[controllertest.Op]int{}
	return &controllertest.Intercept{
		Namespaces: h,
		Before: func(_ context.Context, op controllertest.Op, _ string) error {
			calls[op]++
			return nil
		},
	}, calls
}

func run(t *testing.T, ns pass.Namespaces, d deleter.Deleter, party namespace.Party, name string) (pass.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	return pass.Run(ctx, ns, d, party, pass.Request{Name: name})
}
