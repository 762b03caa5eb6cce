package explain_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller/controllertest"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// The failures of real passes, by their causes.
func TestRecorderTellsFailuresApart(t *testing.T) {
	broken := errors.New("broken")
	fails := func(report deleter.Report, err error) deleter.Deleter { return answer{report, err} }
	source := func(resource namespace.ResourceType, op deleter.Op, err error) error {
		return &deleter.SourceError{Resource: resource, Op: op, Object: "a", Others: 99, Err: err}
	}
	of := func(results ...deleter.Result) deleter.Report { return deleter.Report{Results: results} }
	several, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		return nil, &deleter.DiscoveryError{Message: "two are down", Groups: []deleter.GroupError{{Group: "a.example.com", Err: broken}, {Group: "", Err: broken}}}
	}, nil)
	require.NoError(t, err)
	for _, c := range []struct {
		name    string
		deleter deleter.Deleter
		op      controllertest.Op // of the namespaces that fails
		err     error
		want    []explain.Failure // the last one first
	}{
		{"a source", fails(of(deleter.Result{Resource: widgets, Err: source(widgets, deleter.OpDelete, broken)}), nil), "", nil,
			[]explain.Failure{{Kind: explain.SourceFailed, Source: "widgets.example.com", Text: "delete: broken"}}},
		{"a source, in several ways", fails(of(deleter.Result{Resource: pods, Err: errors.Join(source(pods, deleter.OpList, broken), source(pods, deleter.OpDelete, broken))}), nil), "", nil,
			[]explain.Failure{{Kind: explain.SourceFailed, Source: "pods", Text: "delete: broken"}, {Kind: explain.SourceFailed, Source: "pods", Text: "list: broken"}}},
		{"a source with a deadline", fails(of(deleter.Result{Resource: pods, Err: source(pods, deleter.OpList, fmt.Errorf("no answer: %w", context.DeadlineExceeded))}), nil), "", nil,
			[]explain.Failure{{Kind: explain.SourceSlow, Source: "pods", Text: "list: no answer: context deadline exceeded"}}},
		{"an undeclared type", fails(of(deleter.Result{Resource: widgets, Err: source(widgets, "", deleter.ErrUndeclared)}), nil), "", nil,
			[]explain.Failure{{Kind: explain.Undeclared, Source: "widgets.example.com", Text: deleter.ErrUndeclared.Error()}}},
		{"what is left unexpectedly", fails(of(deleter.Result{Resource: pods, Remaining: 1, Err: source(pods, "", fmt.Errorf("%w in shop: 1", deleter.ErrUnexpected))}), nil), "", nil,
			[]explain.Failure{{Kind: explain.SourceFailed, Source: "pods", Text: "unexpected items still remain, and nothing holds them"}}},
		{"what is left although it was deleted", fails(of(deleter.Result{Resource: pods, Deleted: 1, Remaining: 1, Err: source(pods, "", fmt.Errorf("%w in shop: 1", deleter.ErrUnexpected))}), nil), "", nil,
			[]explain.Failure{{Kind: explain.Returning, Source: "pods", Text: "unexpected items still remain, and nothing holds them"}}},
		{"groups", several, "", nil, []explain.Failure{
			{Kind: explain.DiscoveryFailed, Source: "core group", Text: "broken"}, {Kind: explain.DiscoveryFailed, Source: "a.example.com", Text: "broken"}}},
		{"discovery as a whole", fails(deleter.Report{Discovery: []error{broken}}, broken), "", nil,
			[]explain.Failure{{Kind: explain.DiscoveryFailed, Source: "discovery", Text: "broken"}}},
		{"parsing", fails(deleter.Report{Parsing: []error{broken}}, broken), "", nil,
			[]explain.Failure{{Kind: explain.ParsingFailed, Source: "parsing", Text: "broken"}}},
		{"the deleter", fails(deleter.Report{}, broken), "", nil,
			[]explain.Failure{{Kind: explain.SourceFailed, Source: "the deleter", Text: "broken"}}},
		{"the deleter, with the words of a pass", fails(deleter.Report{}, errors.New("read: broken")), "", nil,
			[]explain.Failure{{Kind: explain.SourceFailed, Source: "the deleter", Text: "read: broken"}}},
		{"the deleter, in its report", fails(deleter.Report{Failed: broken}, broken), "", nil,
			[]explain.Failure{{Kind: explain.SourceFailed, Source: "the deleter", Text: "broken"}}},
		{"the deleter hangs", hangs{}, "", nil,
			[]explain.Failure{{Kind: explain.SourceSlow, Source: "the deleter", Text: "the deleter did not answer within 1m0s"}}},
		{"a source hangs", hangs{widgets}, "", nil,
			[]explain.Failure{{Kind: explain.SourceSlow, Source: "widgets.example.com", Text: "list: the deleter did not answer within 1m0s"}}},
		{"the deleter panics", nil, "", nil,
			[]explain.Failure{{Kind: explain.SourceFailed, Source: "the deleter", Text: "the deleter panicked: oh"}}},
		{"reading", fails(deleter.Report{}, nil), controllertest.OpGet, broken,
			[]explain.Failure{{Kind: explain.StorageFailed, Source: "the namespace itself", Text: "read: broken"}}},
		{"the status", fails(counted(pods, 0, 1, 0), nil), controllertest.OpUpdateStatus, broken,
			[]explain.Failure{{Kind: explain.StorageFailed, Source: "the namespace itself", Text: "write status: broken"}}},
		{"finalizing", fails(deleter.Report{}, nil), controllertest.OpFinalize, broken,
			[]explain.Failure{{Kind: explain.StorageFailed, Source: "the namespace itself", Text: "finalize: broken"}}},
		{"conflicts", fails(deleter.Report{}, nil), controllertest.OpFinalize, namespace.ErrConflict,
			[]explain.Failure{{Kind: explain.Conflicts, Source: "the namespace itself", Text: "finalize: conflict"}}},
		{"a source and the status", fails(of(deleter.Result{Resource: pods, Err: source(pods, deleter.OpList, broken)}), nil), controllertest.OpUpdateStatus, broken,
			[]explain.Failure{{Kind: explain.StorageFailed, Source: "the namespace itself", Text: "write status: broken"}, {Kind: explain.SourceFailed, Source: "pods", Text: "list: broken"}}},
		{"a panic of what keeps namespaces", fails(deleter.Report{}, nil), controllertest.OpGet, nil,
			[]explain.Failure{{Kind: explain.StorageFailed, Source: "the namespace itself", Text: "the storage of the namespaces panicked: oh"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := new(controllertest.Host)
				_, err := host.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "shop"}})
				require.NoError(t, err)
				ns, err := host.Delete(t.Context(), "shop")
				require.NoError(t, err)
				d := c.deleter
				if d == nil {
					d = panics{}
				}
				namespaces := &controllertest.Intercept{Namespaces: host, Before: func(_ context.Context, op controllertest.Op, _ string) error {
					switch {
					case op != c.op:
						return nil
					case c.err == nil:
						panic("oh")
					}
					return c.err
				}}
				result, err := pass.Run(t.Context(), namespaces, d, namespace.Party{Finalizer: "kubernetes"}, pass.Request{Name: "shop", Patience: time.Minute})
				require.Equal(t, pass.Failed, result.Outcome)

				r := explain.NewRecorder()
				ref := namespace.Ref{Name: "shop", UID: ns.UID}
				for range 2 {
					r.Hooks("").PassEnded(context.Background(), ref, result, err, 0)
				}
				h := r.History("shop", ns.UID).Recorded()
				for i := range c.want {
					c.want[i].Count, c.want[i].First, c.want[i].Last = 2, time.Now().UTC(), time.Now().UTC()
				}
				require.Equal(t, c.want, h.Failures)
				sources := map[string]bool{}
				for _, f := range c.want {
					sources[f.Source] = true
				}
				require.Len(t, h.Failing, len(sources))
			})
		})
	}
}

// answer always answers the same.
type answer struct {
	report deleter.Report
	err    error
}

func (a answer) Delete(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
	return a.report, a.err
}

// hangs never answers, and says which source it was if that has a name.
type hangs struct{ source namespace.ResourceType }

func (h hangs) Delete(ctx context.Context, _ deleter.Target, _ deleter.Report) (deleter.Report, error) {
	<-ctx.Done()
	if h.source.Name == "" {
		return deleter.Report{}, context.Cause(ctx)
	}
	err := &deleter.SourceError{Resource: h.source, Op: deleter.OpList, Err: context.Cause(ctx)}
	return deleter.Report{Results: []deleter.Result{{Resource: h.source, Err: err}}}, err
}

type panics struct{}

func (panics) Delete(context.Context, deleter.Target, deleter.Report) (deleter.Report, error) {
	panic("oh")
}
