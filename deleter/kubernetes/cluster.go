package kubernetes

import (
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

// Clients are the clients of one API server. [ForConfig] makes them; tests may
// bring the fakes of client-go.
type Clients struct {
	// Namespaces reads, watches and writes namespaces.
	Namespaces corev1.NamespaceInterface
	// Metadata lists, deletes and watches content of any type.
	Metadata metadata.Interface
	// Resources discovers the types of content, each in its preferred version, as
	// [discovery.ServerPreferredNamespacedResources] does: what was found, and an
	// error that tells of the rest. It bounds each of its requests, lest a single server
	// that hangs take all the time that a discovery has (CallTimeout).
	Resources func(ctx context.Context) ([]*metav1.APIResourceList, error)
	// Version tells what the server is; nil: nobody can say.
	Version func(ctx context.Context) (*version.Info, error)
}

// Options are what a host may choose. Zero fields, and a nil *Options, stand for
// the defaults.
type Options struct {
	// Only are the types of the party's content; empty: all types that the API server
	// has. Failures to discover groups that none of them is in do not matter then.
	Only []namespace.ResourceType
	// Except are types that are left alone.
	Except []namespace.ResourceType
	// ExceptGroups are groups that are left alone, also when their discovery fails;
	// such as those whose objects are computed and never stored.
	ExceptGroups []string
	// After names the types that must be empty before one of the type is deleted;
	// default: [PodsFirst].
	After func(namespace.ResourceType) []namespace.ResourceType
	// OneByOne deletes object by object, each under its uid, and never a collection. It
	// takes a request for each object, and is exact about incarnations (rule R8)
	// whatever others do; a collection can only be fenced by a look just before.
	OneByOne bool
	// Wait is for how long, since it was first seen terminating, an empty namespace is
	// looked at again instead of finalized, because the API server may have admitted a
	// create on an old view of it. Default: as long as the stock controller, 5 s; none
	// with an API server of this library, which says so in its version. Negative: none.
	Wait time.Duration
	// QuietTwice ends the wait early, when a second look, at later resource versions of
	// every type, finds nothing either.
	QuietTwice bool
	// Recheck is how old a look at the namespace may be that a request relies on which
	// can be fenced in no other way; default 1 s, negative: each looks anew. The clients of
	// [ForConfig] keep to it where the request is sent, however long it was held back;
	// those that a host brings to [New] may take longer to send what was looked at.
	Recheck time.Duration
	// Expiry is how long a discovery is used for further passes of an incarnation; the
	// first one of each makes a new discovery. Default 30 s, negative: each pass does.
	Expiry time.Duration
	// Deleter are the bounds of a pass. Parallelism is 256 by default here: clusters
	// with many types have about 200, and each round of requests more is felt.
	Deleter deleter.Options
}

// PodsFirst is the order of the stock controller: everything comes after the pods,
// lest a pod outlive what restricts it, such as a network policy (CVE-2024-7598).
func PodsFirst(r namespace.ResourceType) []namespace.ResourceType {
	pods := namespace.ResourceType{Name: "pods"}
	if r == pods {
		return nil
	}
	return []namespace.ResourceType{pods}
}

// Cluster is an API server as this library needs it. It has no goroutines and
// nothing to close; all its methods are safe for concurrent use.
type Cluster struct {
	namespaces *Namespaces
	deleter    *Deleter
}

// New makes a Cluster of clients; opts may be nil. Nothing is asked of the API server
// yet. What the clients do between a call and its request, such as waiting for a
// limit of theirs or for the server to take it after all, is beyond [Options.Recheck].
// A missing client (all but Version are needed) and options that make no sense are
// refused with [deleter.ErrInvalid]; the error names the field.
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
			return nil, fmt.Errorf("%w clients: %s is nil", deleter.ErrInvalid, client.name)
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
	in := newIncarnations(reading(clients.Namespaces, o.Deleter.CallTimeout), o.Recheck)
	d := &Deleter{options: o, incarnations: in, catalog: &catalog{
		clients: clients, scope: s, after: o.After, timeout: o.Deleter.CallTimeout, version: o.Wait == 0, compose: compose,
	}}
	d.catalog.content = func(t typeInfo) deleter.Content {
		return newContent(t, clients.Metadata, in, d.catalog.absent, o.OneByOne)
	}
	return &Cluster{namespaces: newNamespaces(clients.Namespaces, in), deleter: d}, nil
}

// reading returns how a namespace is read for all that need it. That has a bound of its
// own, since no caller's deadline ends what others share.
func reading(client corev1.NamespaceInterface, timeout time.Duration) func(context.Context, string) (*corev1api.Namespace, error) {
	return func(ctx context.Context, name string) (*corev1api.Namespace, error) {
		within, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the read did not end within %v", timeout))
		defer cancel()
		ns, err := client.Get(within, name, metav1.GetOptions{})
		if cause := context.Cause(within); err != nil && cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return ns, err
	}
}

// Namespaces returns the place where the cluster's namespaces are kept.
func (c *Cluster) Namespaces() *Namespaces { return c.namespaces }

// Deleter returns what empties the cluster's namespaces. It relies on what
// [Cluster.Namespaces] sees of them, so that fewer reads are needed.
func (c *Cluster) Deleter() *Deleter { return c.deleter }

// parallelism is how many requests a pass makes at once, by default, and how many
// connections are kept for them.
const parallelism = 256

// Content returns the objects of one type as a source has them, for hosts that
// compose a deleter of their own: of a fixed set of types, or together with content
// that is not in the cluster. Verbs are what the server can do with the type, as
// discovery tells it; of these count "list", "delete", "deletecollection" and "watch".
//
// It is fenced and learns as the content of [Cluster.Deleter] does, but is never
// known to be final: the wait for a settled view (Options.Wait) is the deleter's, so
// a host that relies on it looks again itself.
//
// A type without a name or version, one that can be deleted in no way, and one that
// the options leave alone are refused with [deleter.ErrInvalid].
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
		return nil, fmt.Errorf("%w type %s: the options Only, Except or ExceptGroups leave it alone", deleter.ErrInvalid, t.resource())
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
	if opts.Recheck == 0 {
		opts.Recheck = time.Second
	}
	if opts.Expiry == 0 {
		opts.Expiry = 30 * time.Second
	}
	if opts.Deleter.Parallelism == 0 {
		opts.Deleter.Parallelism = parallelism
	}
	if opts.Deleter.CallTimeout == 0 {
		opts.Deleter.CallTimeout = time.Minute
	}
	return opts
}
