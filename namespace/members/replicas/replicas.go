// Package replicas divides work between processes that share a store: the
// replicas of a group each own a share of all names, and every name has one owner.
// Membership, failure detection and takeover go through the store itself; no
// further service is needed. A [Replica] is what controller.Options.Division asks
// for, so that N controllers together do the work of one (rule R11 makes any number
// of them safe; this package makes them cheap).
//
// # How it works
//
// A member is an entry in the store, /{prefix}/.replicas/{group}/{id}. The entries
// that exist are the members, for everybody: nobody acts on an opinion of its own
// about who is alive. All replicas watch the entries, so their views change in the
// same order, and differ only for as long as the store takes to deliver.
//
// A member rewrites its entry every [Options.Beat], under the condition that nobody
// else has touched it, and a beat counts when it has come back through the watch.
// So one beat proves that the replica can write and that it sees what others write.
// Until [Options.Patience] after it sent the last beat that counted it owns its
// share; then it owns nothing until another one has counted. A process that was
// stopped for longer finds that out from its clock before it does anything else.
//
// Whoever sees that another entry did not change between the moment at which it was
// told of it and a beat of its own, sent at least Patience later, deletes that entry,
// under the condition that it is still the same. The beat is in the store's order, so
// everything that the other wrote before has been seen: a judge that was stopped, or
// whose watch lags, is never wrong about it. Clocks of two machines are never
// compared; only the rate of each matters (one that stands still while its machine is
// suspended lets the replica there do double work for a moment after). A judge whose
// own beats did not count for Patience (the store did not answer, or it was stopped)
// gives everybody a new term first.
//
// The owner of a name is the member of the highest weight, a hash of both (rendezvous
// hashing): a member that comes takes an equal share of each other, and the share of one
// that goes is spread over those that stay; nothing else moves.
//
// # Bounds
//
// While the store answers, the share of a member that died without a word is owned
// by others after Patience + Beat at the latest, and the time the store takes to
// deliver (8 s by default). One that leaves hands over at once. A member that cannot
// reach the store stops owning before others take over. All that may go wrong in
// between is that two do the same work for a moment, or nobody does: that costs work
// and time, never safety.
//
// A replica costs one write per Beat, which all replicas are told of.
package replicas

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/store"
)

// ErrRunning is the answer to a second Run beside the first.
var ErrRunning = errors.New("the replica is running already")

// Member is one replica of a group as the store has it.
type Member struct {
	ID    string // random, new each time that the replica joins
	Label string // for people
	Self  bool   // it is the replica that was asked
}

// Replica is the membership of this process in a group. Make one with [New]; it is
// a member while [Replica.Run] runs. All methods are safe for concurrent use.
type Replica struct {
	store   store.Store
	prefix  string // of the entries of the group
	options Options
	view    atomic.Pointer[view]
	busy    atomic.Bool
}

// New returns a replica of group over s. The group names what is divided: the
// replicas of one party use that party's finalizer; two groups know nothing of each
// other. It is one or more path segments. Nil options are all defaults. A missing
// store, an invalid group and options out of range are refused with
// [store.ErrInvalid]. Nothing is read or written.
func New(s store.Store, group string, o *Options) (*Replica, error) {
	if s == nil {
		return nil, invalid("a replica needs a store")
	}
	if err := checkPath("the group", group); err != nil {
		return nil, err
	}
	options, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Replica{store: s, prefix: "/" + options.Prefix + "/.replicas/" + group + "/", options: options}
	r.view.Store(newView())
	return r, nil
}

// Run joins the group and stays a member until ctx ends; then it leaves, so that
// others take over at once, and nothing that it started runs on. It returns nil, or
// why it could not leave: the others will find out within the bound. It may be called
// again after it returned, but not beside itself: that is [ErrRunning].
//
// No failure of the store ends it but [store.ErrClosed]; meanwhile calls are repeated
// every quarter of a Beat, and the replica owns nothing once Patience is over.
func (r *Replica) Run(ctx context.Context) error {
	if ctx == nil {
		return invalid("a replica needs a context to run")
	}
	if !r.busy.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.busy.Store(false)
	return newLoop(ctx, r).run()
}

// Owns reports whether name is in the share of this replica now. It is false for
// all names while the replica is not a member. It allocates nothing and takes time
// with the number of members.
func (r *Replica) Owns(name string) bool {
	now := time.Now() // before the view is loaded: see [loop.renew]
	return r.view.Load().owns(name, now)
}

// Changed returns a channel that is closed as soon as Owns may answer otherwise than
// before this call. To miss nothing, call it before Owns.
func (r *Replica) Changed() <-chan struct{} { return r.view.Load().changed }

// Members returns the members that this replica knows of, ordered by ID. It does not
// know of any while it is not a member itself.
func (r *Replica) Members() []Member { return slices.Clone(r.view.Load().members) }

// newID returns a random id. Nobody ever uses one again, so a late write of an
// earlier life cannot be taken for one of this.
func newID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// maxSegment bounds a segment of a key, in bytes.
const maxSegment = 253

// checkPath refuses what cannot be one or more segments of a key.
func checkPath(what, path string) error {
	if len(path) > maxSegment {
		return invalid("%s has %d bytes, at most %d are allowed", what, len(path), maxSegment)
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "":
			return invalid("%s %q has an empty segment", what, path)
		case segment[0] == '.':
			return invalid("%s %q has a segment that begins with '.'", what, path)
		case !utf8.ValidString(segment):
			return invalid("%s %q is not valid UTF-8", what, path)
		case strings.ContainsFunc(segment, func(c rune) bool { return c < ' ' || c == 0x7f || c == '%' }):
			return invalid("%s %q has a control character or a '%%'", what, path)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("replicas: %w: "+format, append([]any{store.ErrInvalid}, args...)...)
}
