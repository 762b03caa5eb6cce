package deleter

import (
	"sync"
	"sync/atomic"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// known is the knowledge about one resource type. It outlives passes.
type known struct {
	content Content // the latest; guarded by memory.mu
	refused atomic.Uint32
	balance atomic.Int32 // see found
}

// Bits of known.refused.
const (
	noDelete uint32 = 1 << iota
	noDeleteCollection
	noEmpty
	noEstimate
	noWait
)

func (k *known) refuses(op uint32) bool { return k.refused.Load()&op != 0 }
func (k *known) learn(op uint32)        { k.refused.Or(op) }

// The first visit of a type in a namespace can begin with a listing, which suffices for an
// empty type and is one call too many otherwise, or with a deletion. A saturating two-bit
// counter predicts from other namespaces whether the type is empty. At either end it takes
// two wrong predictions in a row to change the prediction.
const (
	surelyFull = iota - 1
	maybeFull  // where each type begins: two calls in any case
	maybeEmpty
	surelyEmpty
)

func (k *known) tendsEmpty() bool { return k.balance.Load() >= maybeEmpty }

func (k *known) found(empty bool) {
	step := int32(-1)
	if empty {
		step = 1
	}
	for {
		old := k.balance.Load()
		next := min(max(old+step, surelyFull), surelyEmpty)
		if next == old || k.balance.CompareAndSwap(old, next) {
			return
		}
	}
}

// memory holds the knowledge by resource type.
type memory struct {
	mu    sync.Mutex
	types map[namespace.ResourceType]*known
}

// recall returns the knowledge about each source, in their order, and updates their contents.
// It forgets types that discovery no longer finds once they are many.
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

// notifier returns the type's content as a [Notifier], or nil.
func (m *memory) notifier(resource namespace.ResourceType) (Notifier, *known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.types[resource]
	if k == nil || k.refuses(noWait) {
		return nil, nil
	}
	n, _ := k.content.(Notifier)
	return n, k
}
