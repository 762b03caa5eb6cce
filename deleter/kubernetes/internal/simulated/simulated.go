// Package simulated is an in-process API server for tests and benchmarks: the typed client of
// namespaces, the metadata client, and discovery, over maps instead of a network. It counts
// requests, answers after a fixed latency, fails on demand, and keeps objects with finalizers.
//
// State is split by namespace and type, so that concurrent calls do not block each other. Time is
// that of package time and may be virtual (testing/synctest). No goroutines remain.
package simulated

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Verb is the verb of a request.
type Verb uint8

// The verbs.
const (
	Get Verb = iota
	List
	Watch
	Create
	Delete
	DeleteCollection
	UpdateStatus
	Finalize
	Patch
	Discover
	Version

	verbs
)

var verbNames = [verbs]string{
	"get", "list", "watch", "create", "delete", "deletecollection", "update status", "finalize", "patch", "discover", "version",
}

// String returns the verb in lower case.
func (v Verb) String() string {
	if v >= verbs {
		return "none"
	}
	return verbNames[v]
}

// Request is one request.
type Request struct {
	Verb      Verb
	Resource  namespace.ResourceType // [Namespaces] for these; zero for discovery and version
	Namespace string
	Name      string
}

// Namespaces is the type of namespaces in a [Request].
var Namespaces = namespace.ResourceType{Name: "namespaces"}

// Type is a type of content.
type Type struct {
	schema.GroupVersionResource
	Verbs []string // empty: all
}

// Types returns n types, pods first, twenty to a group.
func Types(n int) []Type {
	types := []Type{{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}}
	for i := 1; i < n; i++ {
		types = append(types, Type{GroupVersionResource: schema.GroupVersionResource{
			Group: fmt.Sprintf("g%d.example.com", i/20), Version: "v1", Resource: fmt.Sprintf("things%03d", i),
		}})
	}
	return types[:n]
}

// Options configure an [API].
type Options struct {
	Types   []Type
	Latency time.Duration // of each request
	// Before runs after the latency. Its error fails the request.
	Before func(context.Context, Request) error
	// GitVersion is the version of the server.
	GitVersion string
}

// API is an API server. All methods are safe for concurrent use.
type API struct {
	opts     Options
	kinds    []*kind
	index    map[schema.GroupVersionResource]*kind
	special  [2]kind // namespaces; discovery and version
	rooms    sync.Map
	revision atomic.Uint64
	spaces   spaces
}

// kind is a type of content.
type kind struct {
	Type
	resource namespace.ResourceType
	index    int
	counts   [verbs]atomic.Int64
}

func (k *kind) group() schema.GroupResource {
	return schema.GroupResource{Group: k.resource.Group, Resource: k.resource.Name}
}

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// New returns an API without namespaces.
func New(opts Options) *API {
	a := &API{opts: opts, index: map[schema.GroupVersionResource]*kind{}}
	a.special[0].resource = Namespaces
	for i, t := range opts.Types {
		if len(t.Verbs) == 0 {
			t.Verbs = allVerbs
		}
		k := &kind{Type: t, resource: namespace.ResourceType{Group: t.Group, Name: t.Resource}, index: i}
		a.kinds, a.index[t.GroupVersionResource] = append(a.kinds, k), k
	}
	a.spaces.named, a.spaces.feed.room = map[string]*space{}, 4*history
	return a
}

// Requests returns the number of requests with these verbs, or of all requests, including failed
// ones.
func (a *API) Requests(of ...Verb) int {
	n := 0
	for _, k := range a.all() {
		n += k.requests(of)
	}
	return n
}

// RequestsFor is Requests for one type.
func (a *API) RequestsFor(r namespace.ResourceType, of ...Verb) int {
	n := 0
	for _, k := range a.all() {
		if k.resource == r {
			n += k.requests(of)
		}
	}
	return n
}

// all returns all counters of requests.
func (a *API) all() []*kind {
	return append(slices.Clone(a.kinds), &a.special[0], &a.special[1])
}

func (k *kind) requests(of []Verb) int {
	n := int64(0)
	for v := range verbs {
		if len(of) == 0 || slices.Contains(of, v) {
			n += k.counts[v].Load()
		}
	}
	return int(n)
}

// ResetRequests resets the counters.
func (a *API) ResetRequests() {
	for _, k := range a.all() {
		for v := range k.counts {
			k.counts[v].Store(0)
		}
	}
}

// Resources discovers the preferred versions, with two requests, as aggregated discovery does.
func (a *API) Resources(ctx context.Context) ([]*metav1.APIResourceList, error) {
	for range 2 {
		if err := a.call(ctx, &a.special[1], Request{Verb: Discover}); err != nil {
			return nil, err
		}
	}
	var lists []*metav1.APIResourceList
	for _, k := range a.kinds {
		gv := k.GroupVersion().String()
		if len(lists) == 0 || lists[len(lists)-1].GroupVersion != gv {
			lists = append(lists, &metav1.APIResourceList{GroupVersion: gv})
		}
		last := lists[len(lists)-1]
		last.APIResources = append(last.APIResources, metav1.APIResource{
			Name: k.Resource, Namespaced: true, Kind: k.Resource, Verbs: k.Verbs,
		})
	}
	return lists, nil
}

// Version returns the version of the server.
func (a *API) Version(ctx context.Context) (*version.Info, error) {
	if err := a.call(ctx, &a.special[1], Request{Verb: Version}); err != nil {
		return nil, err
	}
	return &version.Info{GitVersion: a.opts.GitVersion}, nil
}

// call counts a request, waits for the latency, and fails on demand.
func (a *API) call(ctx context.Context, k *kind, r Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k.counts[r.Verb].Add(1)
	if a.opts.Latency > 0 {
		timer := time.NewTimer(a.opts.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.Resource = k.resource
	if a.opts.Before != nil {
		return a.opts.Before(ctx, r)
	}
	return nil
}

// callKind is call for a type of content, which must exist and have the verb.
func (a *API) callKind(ctx context.Context, k *kind, verb Verb, namespace, name string) error {
	if k == nil {
		return errNoType
	}
	if err := a.call(ctx, k, Request{Verb: verb, Namespace: namespace, Name: name}); err != nil {
		return err
	}
	if !slices.Contains(k.Verbs, verb.String()) {
		return apierrors.NewMethodNotSupported(k.group(), verb.String())
	}
	return nil
}

var errNoType = apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, true)

// next returns the revision of a change. The caller holds the lock of the changed state, so a
// reader that holds the lock has seen all changes up to the current revision.
func (a *API) next() uint64 { return a.revision.Add(1) }

func decimal(revision uint64) string { return strconv.FormatUint(revision, 10) }
