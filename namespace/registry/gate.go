package registry

import (
	"strings"
	"sync"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// gates caches the revisions of gates, so that most creates need no read before their
// commit. A stale revision costs a conflict. It is read again after the backoff, so that
// frequent writes of a gate do not starve creates. The zero value is empty.
type gates struct {
	mu        sync.RWMutex
	revisions map[string]store.Revision // by namespace
}

// maxGates bounds the cache: about a megabyte.
const maxGates = 10_000

// revision returns the cached revision of the gate of ns, if any.
func (g *gates) revision(ns string) (store.Revision, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	revision, ok := g.revisions[ns]
	return revision, ok
}

// learn caches the revision of the gate of ns.
func (g *gates) learn(ns string, revision store.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.revisions, ns)
	for other := range g.revisions {
		if len(g.revisions) < maxGates {
			break
		}
		delete(g.revisions, other)
	}
	if g.revisions == nil {
		g.revisions = map[string]store.Revision{}
	}
	g.revisions[strings.Clone(ns)] = revision // ns may alias a large request
}

// forget removes the gate of ns from the cache.
func (g *gates) forget(ns string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.revisions, ns)
}

// GateKeys returns where a registry with this prefix ([Options], empty: the
// default) keeps the gate of a namespace and its entry in the index of terminating
// ones: the gate exists exactly while the namespace is Active, the other one exactly
// while it is Terminating; both hold its uid. Either may be written again for the
// same uid ([Write.TouchGate]).
//
// A host that writes content with [store.Store.Commit] must make the gate's revision a
// condition. A late commit then cannot land in a later incarnation, as it could if only
// the gate's existence were required. On a conflict about a gate of the same uid the host
// retries at the new revision. A host that writes content in its own transactions, in the
// same database, must lock the gate until they end; the gate's existence is then sufficient
// (rule R6).
//
// A prefix that no registry can have is [namespace.ErrInvalid], a name that no
// namespace can have [namespace.ErrBadRequest].
func GateKeys(prefix, name string) (gate, terminating string, err error) {
	if prefix == "" {
		prefix = defaultPrefix
	}
	keys, err := newLayout(prefix)
	if err != nil {
		return "", "", err
	}
	if err := checkSegment(namespace.Resource, name); err != nil {
		return "", "", err
	}
	return keys.gate(name), keys.terminating(name), nil
}
