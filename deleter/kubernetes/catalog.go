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

// view is what one discovery found.
type view struct {
	*kit
	began  time.Time               // when the discovery did
	failed *deleter.DiscoveryError // what may hide further types; nil: nothing
	server server
}

// kit is a set of types with what empties them. Discoveries that find the same types
// share it.
type kit struct {
	types    []typeInfo       // sorted by resource
	sources  []deleter.Source // in that order
	final    []deleter.Source // the same, where an empty listing stays empty
	blank    []deleter.Result // the same: each type with nothing left
	composed *deleter.Composed
}

// catalog knows what the API server was last found to have. It makes discoveries on
// request only, at most one at a time, which all share that wait for one. It is safe
// for concurrent use.
type catalog struct {
	clients Clients
	scope   scope
	after   func(namespace.ResourceType) []namespace.ResourceType
	timeout time.Duration // of a discovery
	version bool          // whether it matters what the server is
	content func(typeInfo) deleter.Content
	compose func() (*deleter.Composed, error)

	discoveries flight[*view]
	mu          sync.Mutex
	last        *view // guarded by mu
}

// latest returns what the latest discovery found; nil: there was none.
func (c *catalog) latest() *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// fresh returns what a discovery finds that began after the call.
func (c *catalog) fresh(ctx context.Context) (*view, error) {
	var v *view
	err := deleter.TraceCall(ctx, deleter.Call{Op: deleter.OpDiscover}, func(ctx context.Context) (_ int, err error) {
		v, err = c.discoveries.do(ctx, func(ctx context.Context) (*view, error) {
			within, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("discovery did not end within %v", c.timeout))
			defer cancel()
			return c.discover(within)
		})
		return 0, err
	})
	return v, err
}

// absent reports whether a discovery that begins now no longer finds a type.
func (c *catalog) absent(ctx context.Context, r namespace.ResourceType) (bool, error) {
	v, err := c.fresh(ctx)
	if err != nil {
		return false, err
	}
	_, found := v.find(r)
	return !found && !v.hides(r), nil
}

// hides reports whether a type that was not found may exist nevertheless.
func (v *view) hides(r namespace.ResourceType) bool {
	return v.failed != nil && (len(v.failed.Parsing) > 0 ||
		slices.ContainsFunc(v.failed.Groups, func(g deleter.GroupError) bool { return g.Group == r.Group }))
}

// hidesAs reports whether the same is missing in both views, whatever the texts say of
// the reasons.
func (v *view) hidesAs(other *view) bool {
	if v.failed == nil || other.failed == nil {
		return v.failed == other.failed
	}
	sameGroup := func(a, b deleter.GroupError) bool { return a.Group == b.Group }
	sameText := func(a, b error) bool { return a.Error() == b.Error() }
	return slices.EqualFunc(v.failed.Groups, other.failed.Groups, sameGroup) &&
		slices.EqualFunc(v.failed.Parsing, other.failed.Parsing, sameText)
}

func (k *kit) find(r namespace.ResourceType) (int, bool) {
	return slices.BinarySearchFunc(k.types, r, func(t typeInfo, r namespace.ResourceType) int { return t.resource().Compare(r) })
}

// discover makes one discovery. Only one runs at a time.
func (c *catalog) discover(ctx context.Context) (*view, error) {
	v := &view{began: time.Now()}
	lists, err := c.clients.Resources(ctx)
	if ctx.Err() != nil {
		// Whatever came of it was cut short, also where it does not look so.
		return nil, explain(ctx, orCause(ctx, err))
	}
	types, failed, err := c.scope.read(lists, err)
	if err != nil {
		return nil, err
	}
	v.failed = failed
	former := c.latest()
	if former != nil && slices.Equal(former.types, types) {
		v.kit, v.server = former.kit, former.server
	} else if v.kit, err = c.assemble(types, former); err != nil {
		return nil, err
	}
	if c.version && v.server == unknownServer {
		v.server = askServer(ctx, c.clients.Version)
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

// assemble makes the kit of types. What was learnt about types carries over from the
// former view, unless one of them is not what it was.
func (c *catalog) assemble(types []typeInfo, former *view) (_ *kit, err error) {
	k := &kit{types: types, sources: make([]deleter.Source, len(types)), blank: make([]deleter.Result, len(types))}
	if former != nil {
		k.composed = former.composed
	}
	for i, t := range types {
		r := t.resource()
		k.blank[i].Resource = r
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

// server is what the API server is, as far as that matters.
type server uint8

const (
	unknownServer server = iota
	foreignServer        // creates are admitted on what may be an old view of the namespace
	gatedServer          // creates are held against the namespace's end in one commit (rule R6)
)

// buildMetadata is what an API server of this library has in its version.
const buildMetadata = "nslifecycle"

// askServer tells what the server is. One that does not say is asked again by the
// next discovery.
func askServer(ctx context.Context, ask func(context.Context) (*version.Info, error)) server {
	if ask == nil {
		return foreignServer
	}
	ctx, cancel := context.WithTimeout(ctx, settleWait) // what is not known by then makes no wait shorter
	defer cancel()
	info, err := ask(ctx)
	if err != nil || info == nil {
		return unknownServer
	}
	// Build metadata is what follows the plus, dot by dot.
	_, build, _ := strings.Cut(info.GitVersion, "+")
	if slices.Contains(strings.Split(build, "."), buildMetadata) {
		return gatedServer
	}
	return foreignServer
}
