package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1api "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Clients are the clients of one API server. [ForConfig] creates them. Tests may use the fakes of
// client-go.
type Clients struct {
	// Namespaces reads, watches and writes namespaces.
	Namespaces corev1.NamespaceInterface
	// Metadata lists, deletes and watches content of any type.
	Metadata metadata.Interface
	// Resources discovers the types of content, each in its preferred version, as
	// [discovery.ServerPreferredNamespacedResources] does: it returns the types found, and an
	// error that names the groups that failed. Each of its requests should have a timeout shorter
	// than CallTimeout, so that one server that hangs does not fail the whole discovery.
	Resources func(ctx context.Context) ([]*metav1.APIResourceList, error)
	// Version returns the version of the server. Nil: unknown.
	Version func(ctx context.Context) (*version.Info, error)
}

// Options configure a [Cluster]. Zero fields and a nil *Options mean the defaults.
type Options struct {
	// Only lists the types of the party's content. Empty: all types of the API server. Discovery
	// failures of groups without a listed type are ignored.
	Only []namespace.ResourceType
	// Except lists types to ignore.
	Except []namespace.ResourceType
	// ExceptGroups lists groups to ignore, even if their discovery fails, such as groups whose
	// objects are computed and never stored.
	ExceptGroups []string
	// After returns the types that must be empty before objects of a type are deleted. Default:
	// [PodsFirst].
	After func(namespace.ResourceType) []namespace.ResourceType
	// OneByOne deletes each object by its uid, and never a collection. It costs a request per
	// object and is exact about incarnations (rule R8). A collection can only be checked just
	// before its request.
	OneByOne bool
	// For Wait after the namespace was first seen terminating, an empty listing is not final: the
	// API server may still create objects that it admitted from a stale cache. Default: 5 s, as in the stock controller; zero if the server's version shows an API server
	// of this library. Negative: zero.
	Wait time.Duration
	// QuietTwice ends the wait early if a second pass, at later resource versions of every type,
	// finds nothing either.
	QuietTwice bool
	// Some requests are protected against a new incarnation only by an earlier read of the
	// namespace. Recheck is how old that read may be. Default: 1 s. Negative: read before each
	// request. Clients of [ForConfig] check the age when they send the request, however long it
	// was delayed. Clients given to [New] may delay requests further.
	Recheck time.Duration
	// Expiry is how long later passes of an incarnation use a discovery. The first pass of each
	// incarnation makes a new one. Default: 30 s. Negative: each pass makes one.
	Expiry time.Duration
	// Deleter configures passes. Its Parallelism is 256 by default, since large clusters have
	// about 200 types.
	Deleter deleter.Options
}

// PodsFirst is the order of the stock controller: pods are deleted before everything else, so that
// no pod outlives an object that restricts it, such as a network policy (CVE-2024-7598).
func PodsFirst(r namespace.ResourceType) []namespace.ResourceType {
	pods := namespace.ResourceType{Name: "pods"}
	if r == pods {
		return nil
	}
	return []namespace.ResourceType{pods}
}

// Cluster is an API server. It has no goroutines and needs no Close. Its methods are safe for
// concurrent use.
type Cluster struct {
	namespaces *Namespaces
	deleter    *Deleter
}

// New returns a Cluster that uses clients. It sends no requests. Delays inside the clients, such
// as rate limits and retries, are not covered by [Options.Recheck]. A missing client (all but
// Version are required) and invalid options are errors that match [deleter.ErrInvalid] and name
// the field.
func New(clients Clients, opts *Options) (*Cluster, error) {
	for _, client := range []struct {
		name    string
		missing bool
	}{
		{"Namespaces", clients.Namespaces == nil},
		{"Metadata", clients.Metadata == nil},
		{"Resources", clients.Resources == nil},
	} {
		if client.missing {
			return nil, fmt.Errorf("%w: Clients.%s is nil", deleter.ErrInvalid, client.name)
		}
	}
	o := opts.withDefaults()
	s, err := newScope(&o)
	if err != nil {
		return nil, err
	}
	compose := func() (*deleter.Composed, error) { return deleter.Discovering(sourcesOf, &o.Deleter) }
	if _, err := compose(); err != nil {
		return nil, err
	}
	in := newIncarnations(reader(clients.Namespaces, o.Deleter.CallTimeout), o.Recheck)
	d := &Deleter{options: o, incarnations: in, catalog: &catalog{
		clients: clients, scope: s, after: o.After, timeout: o.Deleter.CallTimeout, version: o.Wait == 0, compose: compose,
	}}
	d.catalog.content = func(t typeInfo) deleter.Content {
		return newContent(t, clients.Metadata, in, d.catalog.isAbsent, o.OneByOne)
	}
	return &Cluster{namespaces: newNamespaces(clients.Namespaces, in), deleter: d}, nil
}

// reader returns a function that reads a namespace. Several callers share its result, so it has a
// timeout of its own instead of a caller's deadline.
func reader(client corev1.NamespaceInterface, timeout time.Duration) func(context.Context, string) (*corev1api.Namespace, error) {
	return func(ctx context.Context, name string) (*corev1api.Namespace, error) {
		within, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no response within %v", timeout))
		defer cancel()
		ns, err := client.Get(within, name, metav1.GetOptions{})
		if cause := context.Cause(within); err != nil && cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return ns, err
	}
}

// Namespaces returns the namespaces of the cluster.
func (c *Cluster) Namespaces() *Namespaces { return c.namespaces }

// Deleter returns the deleter of the cluster's content. It shares reads of namespaces with
// [Cluster.Namespaces].
func (c *Cluster) Deleter() *Deleter { return c.deleter }

// parallelism is the default number of parallel requests of a pass, and of idle connections.
const parallelism = 256

// Content returns the objects of one type as content of a source, for hosts that compose their own
// deleter, such as one with a fixed set of types or with content outside of the cluster. Verbs are
// the verbs of the type in discovery; "list", "delete", "deletecollection" and "watch" matter.
//
// The content checks incarnations as [Cluster.Deleter] does, but an empty listing is never final:
// Options.Wait applies to the Deleter only.
//
// A type without a name or version, one without a verb that deletes, and one excluded by the
// options are errors that match [deleter.ErrInvalid].
func (c *Cluster) Content(gvr schema.GroupVersionResource, verbs ...string) (deleter.Content, error) {
	t := typeInfo{gvr: gvr, verbs: verbsOf(verbs)}
	if err := t.resource().Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", deleter.ErrInvalid, err)
	}
	if err := (namespace.ResourceType{Name: gvr.Version}).Validate(); err != nil {
		return nil, fmt.Errorf("%w version of %s: %w", deleter.ErrInvalid, t.resource(), err)
	}
	if !t.verbs.has(canDelete) && !t.verbs.has(canDeleteCollection) {
		return nil, fmt.Errorf("%w verbs of %s: neither delete nor deletecollection is among %q", deleter.ErrInvalid, t.resource(), strings.Join(verbs, ", "))
	}
	if !c.deleter.catalog.scope.has(t.resource()) {
		return nil, fmt.Errorf("%w type %s: excluded by the options Only, Except or ExceptGroups", deleter.ErrInvalid, t.resource())
	}
	return c.deleter.catalog.content(t), nil
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.After == nil {
		opts.After = PodsFirst
	}
	opts.Recheck = cmp.Or(opts.Recheck, time.Second)
	opts.Expiry = cmp.Or(opts.Expiry, 30*time.Second)
	opts.Deleter.Parallelism = cmp.Or(opts.Deleter.Parallelism, parallelism)
	opts.Deleter.CallTimeout = cmp.Or(opts.Deleter.CallTimeout, time.Minute)
	return opts
}
