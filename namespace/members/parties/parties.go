// Package parties lets the agents that finalize namespaces announce themselves in the store.
// An operator whose namespace waits for an agent can then see whether it is running, since
// when it is missing, and whom to ask.
//
// An instance of a party is an entry, /{prefix}/.parties/{finalizer}/{instance}. [Announce]
// rewrites it every [Options.Beat] and marks it when the instance leaves. [List] reads all
// entries. The last instance of a party stays known after its death, so that List can report
// since when the party is missing; living instances remove older ones.
//
// The entries inform people; no rule depends on them. List compares its machine's clock with
// the time that an instance wrote, so their clocks should agree within [Options.Patience].
// The removal of entries compares no clocks.
package parties

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/namespace/members/internal/instance"
	"github.com/nslifecycle/nslifecycle/store"
)

// Party is the owner of a finalizer.
type Party struct {
	Finalizer finalizer.Name `json:"finalizer"`
	Contact   string         `json:"contact,omitempty"`   // whom to ask: of the instance seen last
	Instances []Instance     `json:"instances,omitempty"` // the living ones, by label; if none, the one seen last
	LastSeen  time.Time      `json:"lastSeen"`            // the latest LastSeen of Instances
	Alive     bool           `json:"alive"`               // an instance is alive
}

// Instance is one process of a party.
type Instance struct {
	Label    string    `json:"label"`
	Since    time.Time `json:"since"`          // its first beat
	LastSeen time.Time `json:"lastSeen"`       // its last beat, by its own clock
	Alive    bool      `json:"alive"`          // LastSeen is less than its Patience ago, and it has not left
	Left     bool      `json:"left,omitempty"` // it shut down orderly at LastSeen
}

// List returns the parties that have ever announced themselves in s with that
// [Options.Prefix] (empty: the default), ordered by finalizer. It skips malformed entries.
// The error is that of an invalid prefix or of s.
func List(ctx context.Context, s store.Store, prefix string) ([]Party, error) {
	prefix = cmp.Or(prefix, keypath.DefaultPrefix)
	if err := keypath.Check("the prefix", prefix); err != nil {
		return nil, fmt.Errorf("parties: %w", err)
	}
	root := rootOf(prefix)
	entries, err := list(ctx, s, root)
	if err != nil {
		return nil, err
	}
	return fold(entries, root, time.Now()), nil
}

// rootOf returns the prefix of all entries.
func rootOf(prefix string) string { return "/" + prefix + "/.parties/" }

// value is the content of an entry.
type value struct {
	Label    string    `json:"label"`
	Contact  string    `json:"contact,omitempty"`
	Since    time.Time `json:"since"`
	Seen     time.Time `json:"seen"`
	Patience string    `json:"patience"` // for time.ParseDuration
	Left     bool      `json:"left,omitempty"`
}

// maxValue bounds the content of an entry that decode reads, in bytes. Announce writes less.
const maxValue = 8 << 10

func (v value) encode() ([]byte, error) { return json.Marshal(v) }

// decode reads the content of an entry. It is untrusted: any client that may write to the
// store may have written it.
func decode(data []byte) (v value, ok bool) {
	if len(data) > maxValue || json.Unmarshal(data, &v) != nil {
		return value{}, false
	}
	ok = !v.Seen.IsZero() &&
		instance.CheckText("label", v.Label, instance.MaxLabel) == nil && instance.CheckText("contact", v.Contact, maxContact) == nil
	return v, ok
}

// patience returns how long the instance may be silent.
func (v value) patience() time.Duration {
	p, err := time.ParseDuration(v.Patience)
	if err != nil || p <= 0 || p > maxPatience {
		return defaultPatience
	}
	return p
}

// alive reports whether the instance is alive at now. A time in the future, of another
// clock, counts like one that is as far in the past.
func (v value) alive(now time.Time) bool {
	return !v.Left && now.Sub(v.Seen).Abs() < v.patience()
}

// list returns all entries below prefix. Its pages need not belong to one snapshot: entries
// do not move.
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

// fold returns the parties of entries, whose keys begin with prefix.
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

// add adds an instance. A living instance replaces dead ones, and a dead one replaces dead
// ones that were seen earlier.
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
