package debug

import (
	"context"
	"errors"
	"sync"

	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// Sharing returns options for the explainer of a [Handler], by which an index that
// explains many namespaces asks once for the agents, and not once for each namespace,
// and reads no inventories: what force has left is then told by its numbers. The page of
// one namespace has all of it, and what is explained beyond the pages is as by o. Nil
// stands for no options.
func Sharing(o *explain.Options) *explain.Options {
	var out explain.Options
	if o != nil {
		out = *o
	}
	if ask := out.Parties; ask != nil {
		out.Parties = func(ctx context.Context) ([]parties.Party, error) {
			if s := sharedBy(ctx); s != nil {
				return s.parties(ctx, ask)
			}
			return ask(ctx)
		}
	}
	if read := out.Record; read != nil {
		out.Record = func(ctx context.Context, name, id string) (audit.Record, error) {
			if sharedBy(ctx) != nil {
				return audit.Record{}, errNoInventory
			}
			return read(ctx, name, id)
		}
	}
	return &out
}

var errNoInventory = errors.New("an index reads no inventories")

// shared is what the explanations of one index have in common.
type shared struct {
	mu    sync.Mutex
	asked bool
	list  []parties.Party
	err   error
}

type sharedKey struct{}

func withShared(ctx context.Context) context.Context {
	return context.WithValue(ctx, sharedKey{}, &shared{})
}

// sharedBy returns what is shared on the index that ctx is of; nil: it is of none.
func sharedBy(ctx context.Context) *shared {
	s, _ := ctx.Value(sharedKey{}).(*shared)
	return s
}

// parties returns the agents. Who comes first asks for all.
func (s *shared) parties(ctx context.Context, ask func(context.Context) ([]parties.Party, error)) ([]parties.Party, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked {
		s.asked = true
		s.err = safely(func() (err error) {
			s.list, err = ask(ctx)
			return err
		})
	}
	return s.list, s.err
}
