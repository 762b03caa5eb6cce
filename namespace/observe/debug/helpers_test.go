package debug_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

// place is where namespaces are kept in tests, and who explains them.
type place struct {
	mu       sync.Mutex
	items    map[string]explain.Diagnosis
	holds    []namespace.Event
	gets     int
	explain  int
	fail     error     // of all calls
	block    func()    // called by Explain, if set
	meantime func()    // called once names were listed, if set
	at       time.Time // when diagnoses are made; zero: now
	restless bool      // each diagnosis has another cause
}

func newPlace(diagnoses ...explain.Diagnosis) *place {
	p := &place{items: map[string]explain.Diagnosis{}}
	for _, d := range diagnoses {
		p.items[d.Name] = d
	}
	return p
}

// set puts a diagnosis in.
func (p *place) set(d explain.Diagnosis) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items[d.Name] = d
}

// only leaves nothing but d.
func (p *place) only(d explain.Diagnosis) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items = map[string]explain.Diagnosis{d.Name: d}
}

func (p *place) remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.items, name)
}

func (p *place) failWith(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
}

func (p *place) calls() (gets, explained int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gets, p.explain
}

func (p *place) Get(_ context.Context, name string) (namespace.Namespace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gets++
	d, ok := p.items[name]
	switch {
	case p.fail != nil:
		return namespace.Namespace{}, p.fail
	case !ok:
		return namespace.Namespace{}, &namespace.Error{Kind: namespace.ErrNotFound, Message: "not found"}
	}
	ns := namespace.Namespace{Meta: namespace.Meta{Name: name, UID: d.UID}}
	if d.Phase == phase.Terminating {
		ns.DeletionTimestamp = phase.At(d.Since)
	}
	return ns, nil
}

func (p *place) Terminating(ctx context.Context, _ string) iter.Seq2[namespace.Event, error] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var events []namespace.Event
	for name, d := range p.items {
		if d.Phase == phase.Terminating {
			events = append(events, namespace.Event{Type: namespace.EventPresent, Name: name, UID: d.UID})
		}
	}
	slices.SortFunc(events, func(a, b namespace.Event) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	fail := p.fail
	return func(yield func(namespace.Event, error) bool) {
		if fail != nil {
			yield(namespace.Event{}, fail)
			return
		}
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if p.meantime != nil {
			p.meantime()
		}
		if yield(namespace.Event{Type: namespace.EventSynced}, nil) {
			<-ctx.Done()
			yield(namespace.Event{}, context.Cause(ctx))
		}
	}
}

func (p *place) Explain(_ context.Context, name string) (explain.Diagnosis, error) {
	p.mu.Lock()
	p.explain++
	d, ok := p.items[name]
	fail, block := p.fail, p.block
	if p.restless && ok {
		d.Causes = []explain.Cause{{Kind: explain.Conflicts, Summary: fmt.Sprint("conflict ", p.explain)}}
	}
	p.mu.Unlock()
	if block != nil {
		block()
	}
	switch {
	case fail != nil:
		return explain.Diagnosis{}, fail
	case !ok:
		return explain.Diagnosis{Name: name, At: time.Now(), Summary: "There is no namespace of that name."}, nil
	}
	if d.At = p.at; p.at.IsZero() {
		d.At = time.Now()
	}
	return d, nil
}

// whole is a place that offers everything.
type whole struct {
	*place
	active int
}

func (w whole) Count(context.Context) (active, terminating int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active, len(w.items), w.fail
}

func (w whole) Holds(ctx context.Context, _ string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		for _, e := range w.holds {
			if !yield(e, nil) {
				return
			}
		}
		yield(namespace.Event{Type: namespace.EventSynced}, nil)
	}
}

func newHandler(t testing.TB, namespaces debug.Namespaces, e debug.Explainer, o *debug.Options) *debug.Handler {
	t.Helper()
	h, err := debug.New(namespaces, e, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

// get returns the response of h.
func get(h http.Handler, target string) *httptest.ResponseRecorder {
	return ask(h, http.MethodGet, target)
}

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, local(httptest.NewRequest(method, target, nil)))
	return w
}

// local returns a request for this machine: the handler refuses the host that httptest
// takes by default.
func local(r *http.Request) *http.Request {
	r.Host = "localhost"
	return r
}

// going is a terminating namespace with one cause.
func going(name string, since time.Time) explain.Diagnosis {
	return explain.Diagnosis{
		Name: name, UID: "uid-of-" + name, Phase: phase.Terminating, Stage: phase.DeletingContent, Since: since,
		Summary: fmt.Sprintf("It is Terminating since %s.", since.UTC().Format(time.RFC3339)),
		Causes: []explain.Cause{{
			Kind: explain.SourceFailed, Source: "widgets.example.com", Summary: "widgets.example.com cannot be listed",
			Detail: "connection refused", Remedy: explain.Remedy{Text: "Bring it back.", Command: "kubectl get widgets"},
		}},
		Progress: &explain.Progress{Removed: 1, Known: true, Remaining: 3, Percent: 25},
	}
}
