package deleter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace"
)

func target() deleter.Target { return targetOf("development") }

func targetOf(namespace string) deleter.Target {
	return deleter.Target{
		Namespace: namespace, UID: namespace + "-1", DeletedAt: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func core(name string) namespace.ResourceType { return namespace.ResourceType{Name: name} }

func source(name string, content deleter.Content, after ...string) deleter.Source {
	s := deleter.Source{Resource: core(name), Content: content, Final: true}
	for _, a := range after {
		s.After = append(s.After, core(a))
	}
	return s
}

func compose(t *testing.T, opts *deleter.Options, sources ...deleter.Source) *deleter.Composed {
	t.Helper()
	d, err := deleter.New(sources, opts)
	require.NoError(t, err)
	return d
}

// hold is the finalizer of held objects in tests.
const hold = "example.com/hold"

// plain hides every capability of a fake.
type plain struct{ deleter.Content }

func fake(opts *contenttest.FakeOptions, objects ...contenttest.Object) *contenttest.Fake {
	f := contenttest.NewFake(opts)
	f.Put(target(), objects...)
	return f
}

func result(t *testing.T, r deleter.Report, name string) deleter.Result {
	t.Helper()
	for _, one := range r.Results {
		if one.Resource == core(name) {
			return one
		}
	}
	require.Failf(t, "no result", "for %s in %+v", name, r)
	return deleter.Result{}
}
