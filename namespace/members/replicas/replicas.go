// Package replicas divides work between processes that share a store. Each replica of a
// group owns a share of all names, and every name has one owner. Membership, failure
// detection and takeover go through the store itself; no further service is needed. A
// [Replica] implements controller.Division: with it, N controllers together do the work of
// one. Rule R11 makes any number of controllers safe; this package makes them cheap.
//
// # How it works
//
// A member is an entry in the store, /{prefix}/.replicas/{group}/{id}. The entries that exist
// are the members: no replica acts on its own opinion of which others are alive. All
// replicas watch the entries, so their views change in the same order and differ only for
// as long as the store takes to deliver.
//
// A member renews its lease by rewriting its entry every [Options.Beat], on condition that no
// other process has changed it. A beat counts once the watch has returned it: it proves that
// the replica can write and that it sees the writes of others. The lease ends
// [Options.Patience] after the last beat that counted was sent. A replica without a lease
// owns nothing until another beat counts. A process that was suspended for longer finds
// that out from its clock before it does anything else.
//
// A member deletes the entry of another one that has not changed for Patience, on condition that
// the entry still has that revision. It measures the silence up to when it sent its own last
// beat that counted. That beat returned through the watch, so the member has seen every earlier
// write of the other one: a member that was suspended, or whose watch lags, does not misjudge
// others. A member whose lease had lapsed restarts the Patience of all others when its beat
// counts again. Clocks of two machines are never compared; only their rates matter. (If a clock
// stands still while its machine is suspended, that replica does double work for a moment
// afterwards.)
//
// The owner of a name is the member with the highest hash of both (rendezvous hashing). A
// new member takes an equal share from each other, and the share of a member that leaves is
// spread over the rest; no other name moves.
//
// # Bounds
//
// While the store answers, the share of a member that died is taken over at most Patience +
// Beat later (8 s by default), plus the time the store takes to deliver. A member that leaves
// hands over at once. A member that cannot reach the store stops owning before others take
// over. In between, two replicas may own a name for a moment, or none: that costs work and
// time, never safety.
//
// A replica costs one write per Beat, which all replicas receive.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/store"
)

// ErrRunning is the error of a second concurrent Run.
var ErrRunning = errors.New("the replica is already running")

// Member is one replica of a group.
type Member struct {
	ID    string // random, new each time that the replica joins
	Label string // for people
	Self  bool   // it is the replica that returned this Member
}

// Replica is the membership of this process in a group. It is a member while [Replica.Run]
// runs. All methods are safe for concurrent use.
type Replica struct {
	store   store.Store
	prefix  string // of the entries of the group
	options Options
	view    atomic.Pointer[view]
	running atomic.Bool
}

// New returns a replica of group over s. The group, one or more path segments, names the work
// that is divided: the replicas of one party use its finalizer. Groups are independent. A
// nil opts selects the defaults. New returns an error if the group or an option is invalid.
// It does not access the store.
func New(s store.Store, group string, opts *Options) (*Replica, error) {
	if err := keypath.Check("the group", group); err != nil {
		return nil, fmt.Errorf("replicas: %w", err)
	}
	var options Options
	if opts != nil {
		options = *opts
	}
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("replicas: %w", err)
	}
	r := &Replica{store: s, prefix: "/" + options.Prefix + "/.replicas/" + group + "/", options: options}
	r.view.Store(newView())
	return r, nil
}

// Run joins the group and stays a member until ctx ends. It then leaves, so that others take
// over at once, waits for every goroutine that it started, and returns nil. If it cannot
// leave it returns the cause; the others then take over within the bounds of the package.
// A concurrent second Run returns [ErrRunning].
//
// Of the failures of the store only [store.ErrClosed] ends Run. After others it retries each
// quarter of a Beat, and owns nothing once its lease has ended.
func (r *Replica) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	return newLoop(ctx, r).run()
}

// Owns reports whether name is in the share of this replica now. It is false for all names
// while the replica is not a member. It allocates nothing and takes time with the number of
// members.
func (r *Replica) Owns(name string) bool {
	now := time.Now() // before the view is loaded: see loop.extend
	return r.view.Load().owns(name, now)
}

// Changed returns a channel that is closed once Owns may answer differently than before
// this call. To miss no change, call it before Owns.
func (r *Replica) Changed() <-chan struct{} { return r.view.Load().changed }

// Members returns the members that this replica knows, ordered by ID. It knows none while it
// is not a member itself.
func (r *Replica) Members() []Member { return slices.Clone(r.view.Load().members) }
