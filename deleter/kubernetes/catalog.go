package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// snapshot is the result of one discovery.
type snapshot struct {
	*typeSet
	began  time.Time               // start of the discovery
	failed *deleter.DiscoveryError // failures that may hide types; nil if complete
	server server
}

// typeSet is a set of types with their sources. Discoveries that find the same types share it.
type typeSet struct {
	types        []typeInfo       // sorted by resource
	sources      []deleter.Source // in the same order
	final        []deleter.Source // the same sources, with Final set
	emptyResults []deleter.Result // an empty result for each type
	composed     *deleter.Composed
}

// catalog makes discoveries on request, at most one at a time, and keeps the latest. It is safe
// for concurrent use.
type catalog struct {
	clients Clients
	scope   scope
	after   func(namespace.ResourceType) []namespace.ResourceType
	timeout time.Duration // of a discovery
	version bool          // detect the kind of server
	content func(typeInfo) deleter.Content
	compose func() (*deleter.Composed, error)

	discoveries singleflight[*snapshot]
	mu          sync.Mutex
	last        *snapshot // guarded by mu
}

// latest returns the latest snapshot, or nil.
func (c *catalog) latest() *snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// fresh returns the result of a discovery that began after the call.
func (c *catalog) fresh(ctx context.Context) (*snapshot, error) {
	var v *snapshot
	err := deleter.TraceCall(ctx, deleter.Call{Op: deleter.OpDiscover}, func(ctx context.Context) (_ int, err error) {
		v, err = c.discoveries.do(ctx, func(ctx context.Context) (*snapshot, error) {
			within, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("discovery did not complete within %v", c.timeout))
			defer cancel()
			return c.discover(within)
		})
		return 0, err
	})
	return v, err
}

// isAbsent reports whether a new discovery no longer finds a type.
func (c *catalog) isAbsent(ctx context.Context, r namespace.ResourceType) (bool, error) {
	v, err := c.fresh(ctx)
	if err != nil {
		return false, err
	}
	_, found := v.find(r)
	return !found && !v.mayHide(r), nil
}

// mayHide reports whether a type that was not found may exist.
func (v *snapshot) mayHide(r namespace.ResourceType) bool {
	return v.failed != nil && (len(v.failed.Parsing) > 0 ||
		slices.ContainsFunc(v.failed.Groups, func(g deleter.GroupError) bool { return g.Group == r.Group }))
}

// hidesSame reports whether the same groups failed in both snapshots. Error texts of groups may
// differ.
func (v *snapshot) hidesSame(other *snapshot) bool {
	if v.failed == nil || other.failed == nil {
		return v.failed == other.failed
	}
	sameGroup := func(a, b deleter.GroupError) bool { return a.Group == b.Group }
	sameText := func(a, b error) bool { return a.Error() == b.Error() }
	return slices.EqualFunc(v.failed.Groups, other.failed.Groups, sameGroup) &&
		slices.EqualFunc(v.failed.Parsing, other.failed.Parsing, sameText)
}

func (k *typeSet) find(r namespace.ResourceType) (int, bool) {
	return slices.BinarySearchFunc(k.types, r, func(t typeInfo, r namespace.ResourceType) int { return t.resource().Compare(r) })
}

// discover makes a discovery. [catalog.fresh] ensures that only one runs at a time.
func (c *catalog) discover(ctx context.Context) (*snapshot, error) {
	v := &snapshot{began: time.Now()}
	lists, err := c.clients.Resources(ctx)
	if ctx.Err() != nil {
		// The result may be incomplete even without an error.
		return nil, clientError(ctx, orCause(ctx, err))
	}
	types, failed, err := c.scope.read(lists, err)
	if err != nil {
		return nil, err
	}
	v.failed = failed
	former := c.latest()
	if former != nil && slices.Equal(former.types, types) {
		v.typeSet, v.server = former.typeSet, former.server
	} else if v.typeSet, err = c.assemble(types, former); err != nil {
		return nil, err
	}
	if c.version && v.server == unknownServer {
		v.server = detectServer(ctx, c.clients.Version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = v
	return v, nil
}

func orCause(ctx context.Context, err error) error {
	if err == nil {
		return context.Cause(ctx)
	}
	return err
}

// assemble returns the typeSet of types. Unchanged types keep their content, and with it what it
// learned.
func (c *catalog) assemble(types []typeInfo, former *snapshot) (_ *typeSet, err error) {
	k := &typeSet{types: types, sources: make([]deleter.Source, len(types)), emptyResults: make([]deleter.Result, len(types))}
	if former != nil {
		k.composed = former.composed
	}
	for i, t := range types {
		r := t.resource()
		k.emptyResults[i].Resource = r
		k.sources[i] = deleter.Source{Resource: r, After: c.after(r)}
		at, found := 0, false
		if former != nil {
			at, found = former.find(r)
		}
		switch {
		case found && former.types[at] == t:
			k.sources[i].Content = former.sources[at].Content
			continue
		case found:
			k.composed = nil
		}
		k.sources[i].Content = c.content(t)
	}
	k.final = slices.Clone(k.sources)
	for i := range k.final {
		k.final[i].Final = true
	}
	if k.composed == nil {
		k.composed, err = c.compose()
	}
	return k, err
}

// server is the kind of API server.
type server uint8

const (
	unknownServer server = iota
	foreignServer        // may admit creates based on a stale cache
	gatedServer          // checks the gate in the commit of each create (rule R6)
)

// IsLifecycleServer reports whether gitVersion, from GET /version, is that of an API server of this
// library (package apiserver): its build metadata, which follows the plus sign in parts separated
// by dots, contains "nslifecycle". Such a server creates content atomically with the namespace's
// gate (rule R6), and enforces protections and holds.
func IsLifecycleServer(gitVersion string) bool {
	_, build, _ := strings.Cut(gitVersion, "+")
	return slices.Contains(strings.Split(build, "."), "nslifecycle")
}

// detectServer returns the kind of server. If the server does not answer, the next discovery asks
// again.
func detectServer(ctx context.Context, ask func(context.Context) (*version.Info, error)) server {
	if ask == nil {
		return foreignServer
	}
	ctx, cancel := context.WithTimeout(ctx, stockWait) // a later answer is useless
	defer cancel()
	info, err := ask(ctx)
	if err != nil || info == nil {
		return unknownServer
	}
	if IsLifecycleServer(info.GitVersion) {
		return gatedServer
	}
	return foreignServer
}
