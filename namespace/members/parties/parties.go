// Package parties lets the agents that finalize namespaces announce themselves in the
// store, so that a namespace which waits for one can tell whether anybody is there,
// since when nobody is, and whom to ask.
//
// An instance of a party is an entry, /{prefix}/.parties/{finalizer}/{instance}, that
// [Announce] rewrites every [Options.Beat] and marks when it leaves. [List] reads them
// all. The last instance of a party stays known after its death, so that "missing
// since" can be told of it; older ones are removed by those that live.
//
// It is for people: no rule depends on it, and nothing is decided by it. Whether an
// instance is alive is judged by the clock of the machine that lists against that of
// the instance, so they should agree within [Options.Patience]. What is removed is
// judged without comparing clocks.
package parties

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/store"
)

// Party is the owner of a finalizer, as it announced itself.
type Party struct {
	Finalizer finalizer.Name `json:"finalizer"`
	Contact   string         `json:"contact,omitempty"`   // whom to ask: of the instance seen last
	Instances []Instance     `json:"instances,omitempty"` // those alive, by label; the last that was seen, if none is
	LastSeen  time.Time      `json:"lastSeen"`            // the latest of them
	Alive     bool           `json:"alive"`               // any of them is
}

// Instance is one process of a party.
type Instance struct {
	Label    string    `json:"label"`
	Since    time.Time `json:"since"`          // when it announced itself first
	LastSeen time.Time `json:"lastSeen"`       // its last beat, by its own clock
	Alive    bool      `json:"alive"`          // that is less than its Patience ago, and it has not left
	Left     bool      `json:"left,omitempty"` // it went in good order, at LastSeen
}

// List returns the parties that have ever announced themselves in s, ordered by
// finalizer; of opts it uses Prefix only, since each instance says itself how often it
// is to be heard of. Nil opts are all defaults. A missing context or store and options
// out of range are refused with [store.ErrInvalid]; other errors are those of s. Entries
// that nothing can be read from are passed over. It is safe for concurrent use.
func List(ctx context.Context, s store.Store, opts *Options) ([]Party, error) {
	if ctx == nil {
		return nil, invalid("a listing needs a context")
	}
	if s == nil {
		return nil, invalid("a listing needs a store")
	}
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	prefix := options.root()
	entries, err := list(ctx, s, prefix)
	if err != nil {
		return nil, err
	}
	return fold(entries, prefix, time.Now()), nil
}

// list returns all entries below prefix, page by page. The pages need not be of one
// snapshot: no entry ever moves.
func list(ctx context.Context, s store.Store, prefix string) ([]store.Entry, error) {
	const limit = 512
	var entries []store.Entry
	q := store.Query{Prefix: prefix, Limit: limit}
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return nil, err
		}
		entries = append(entries, page.Entries...)
		if !page.More || len(page.Entries) == 0 {
			return entries, nil
		}
		q.After = page.Entries[len(page.Entries)-1].Key
	}
}

// fold makes parties of entries below prefix.
func fold(entries []store.Entry, prefix string, now time.Time) []Party {
	parties := map[finalizer.Name]*Party{}
	for _, e := range entries {
		key := strings.TrimPrefix(e.Key, prefix)
		slash := strings.LastIndexByte(key, '/')
		v, ok := decode(e.Value)
		if !ok || slash < 0 || slash == len(key)-1 {
			continue
		}
		f := finalizer.Name(key[:slash])
		if f.Validate() != nil {
			continue
		}
		p := parties[f]
		if p == nil {
			p = &Party{Finalizer: f}
			parties[f] = p
		}
		p.add(v, now)
	}
	all := make([]Party, 0, len(parties))
	for _, p := range parties {
		slices.SortFunc(p.Instances, func(a, b Instance) int {
			return cmp.Or(strings.Compare(a.Label, b.Label), a.Since.Compare(b.Since), a.LastSeen.Compare(b.LastSeen))
		})
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Party) int { return cmp.Compare(a.Finalizer, b.Finalizer) })
	return all
}

// add takes up an instance: the living displace the dead, and the last seen of the dead
// displaces the others.
func (p *Party) add(v value, now time.Time) {
	i := Instance{Label: v.Label, Since: v.Since, LastSeen: v.Seen, Alive: v.alive(now), Left: v.Left}
	later := len(p.Instances) == 0 || i.LastSeen.After(p.LastSeen)
	switch {
	case i.Alive && p.Alive:
		p.Instances = append(p.Instances, i)
	case i.Alive, !p.Alive && later:
		p.Instances, later = []Instance{i}, true
	default:
		return
	}
	p.Alive = i.Alive
	if later {
		p.Contact, p.LastSeen = v.Contact, i.LastSeen
	}
}
