package deleter

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// known is what has been learnt about one resource type. It outlives passes.
type known struct {
	content Content // the latest; guarded by memory.mu
	refused atomic.Uint32
	empties atomic.Int32
}

// bits of known.refused.
const (
	noDelete uint32 = 1 << iota
	noDeleteCollection
	noEmpty
	noEstimate
	noWait
)

func (k *known) refuses(op uint32) bool { return k.refused.Load()&op != 0 }
func (k *known) learn(op uint32)        { k.refused.Or(op) }

// The first look at a type in a namespace may begin with a listing, which is all
// that an empty type needs but one call too many for another, or with a deletion.
// Which is guessed from the namespaces before, by a counter that needs two wrong
// guesses in a row to change its mind once it is sure.
const (
	surelyFull  = 0
	maybeFull   = 1 // where each type begins: two calls, whatever is there
	maybeEmpty  = 2
	surelyEmpty = 3
)

func (k *known) tendsEmpty() bool { return k.empties.Load()+maybeFull >= maybeEmpty }

func (k *known) found(empty bool) {
	for {
		old := k.empties.Load()
		next := old - 1
		if empty {
			next = old + 1
		}
		// The zero value stands for maybeFull.
		next = min(max(next, surelyFull-maybeFull), surelyEmpty-maybeFull)
		if next == old || k.empties.CompareAndSwap(old, next) {
			return
		}
	}
}

// memory holds what is known, by resource type.
type memory struct {
	mu    sync.Mutex
	types map[namespace.ResourceType]*known
}

// recall returns what is known of each source, in their order, and notes their
// contents. Types that discovery no longer finds are forgotten when they become many.
func (m *memory) recall(sources []Source) []*known {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.types == nil || len(sources) > 0 && len(m.types) > 2*len(sources)+64 {
		kept := make(map[namespace.ResourceType]*known, len(sources))
		for _, s := range sources {
			if k := m.types[s.Resource]; k != nil {
				kept[s.Resource] = k
			}
		}
		m.types = kept
	}
	all := make([]*known, len(sources))
	for i, s := range sources {
		k := m.types[s.Resource]
		if k == nil {
			k = &known{}
			m.types[s.Resource] = k
		}
		k.content = s.Content
		all[i] = k
	}
	return all
}

// content returns the content of one type and what is known of it; nil if it was
// never discovered.
func (m *memory) content(resource namespace.ResourceType) (Content, *known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.types[resource]
	if k == nil {
		return nil, nil
	}
	return k.content, k
}

// cleanSets shares equal lists of clean types between the reports of many
// namespaces: most differ in few types, if any.
type cleanSets struct {
	mu   sync.Mutex
	sets map[string][]namespace.ResourceType
}

// maxCleanSets bounds what is remembered; beyond it lists begin to be shared anew.
const maxCleanSets = 256

func (c *cleanSets) share(clean []namespace.ResourceType) []namespace.ResourceType {
	if len(clean) == 0 {
		return nil
	}
	var key []byte
	for _, r := range clean {
		key = append(append(key, r.String()...), '/')
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if same, ok := c.sets[string(key)]; ok {
		return same
	}
	if c.sets == nil || len(c.sets) >= maxCleanSets {
		c.sets = map[string][]namespace.ResourceType{}
	}
	clean = slices.Clip(slices.Clone(clean))
	c.sets[string(key)] = clean
	return clean
}
