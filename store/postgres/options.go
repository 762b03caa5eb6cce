package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Errors of databases that cannot be used; match them with [errors.Is]. Nothing
// has been changed in such a database.
var (
	// ErrForeign is a schema with tables of something else.
	ErrForeign = errors.New("the schema is not a store of this driver")
	// ErrFormat is a schema in a version of the format that this driver does not
	// know, or a server older than it supports.
	ErrFormat = errors.New("the version is not supported")
	// ErrPrivilege is a role that may not do what a store needs.
	ErrPrivilege = errors.New("the role lacks a privilege")
	// ErrReadOnly is a server that takes no writes, such as a standby.
	ErrReadOnly = errors.New("the server is read-only")
	// ErrCorrupt is a schema whose tables contradict each other: restore a backup.
	ErrCorrupt = errors.New("the tables are damaged")
)

// Options tunes a [Store]. A nil *Options and zero fields mean the defaults;
// negative numbers are [store.ErrInvalid].
type Options struct {
	// Retain is how many commits stay available to watches and to listings of the
	// past; default 100,000. Up to an eighth more may be kept for a while. Stores of
	// one schema should agree; the smallest counts.
	Retain int

	// Poll is how often watches look for commits of other processes when nothing
	// wakes them up; default 500 ms.
	Poll time.Duration

	// NoListen does without the connection that listens for notifications: watches
	// learn of commits of other processes by polling alone.
	NoListen bool

	// NewEpoch is for the first opening after the database was restored from a
	// backup: it starts a new history. Do not set it otherwise.
	//
	// Commits made after the backup was taken are lost, but clients still hold
	// revisions of them. So the store takes another epoch, moves its revision ahead
	// by 2^40 and a random number below 2^50, so that two restores of one backup do
	// not continue alike, and compacts everything before: positions of the lost
	// history are [store.ErrGone], and revisions of it match no entry.
	NewEpoch bool

	times times
	load  int // of stored values, in bytes; see batchLoad
}

const (
	defaultRetain = 100_000
	defaultPoll   = 500 * time.Millisecond
	epochJump     = 1 << 40 // at least, from one history to the next
	epochSpread   = 1 << 50 // and a random number below it
	lastEpoch     = 1 << 62 // no further history begins beyond this revision
)

// withDefaults returns a copy of o with its zero fields filled.
func (o *Options) withDefaults() (Options, error) {
	var filled Options
	if o != nil {
		filled = *o
	}
	if filled.Retain < 0 {
		return filled, fmt.Errorf("%w: Options.Retain is %d, it must not be negative", store.ErrInvalid, filled.Retain)
	}
	if filled.Poll < 0 {
		return filled, fmt.Errorf("%w: Options.Poll is %v, it must not be negative", store.ErrInvalid, filled.Poll)
	}
	if filled.Retain == 0 {
		filled.Retain = defaultRetain
	}
	if filled.Poll == 0 {
		filled.Poll = defaultPoll
	}
	filled.load = cmp.Or(filled.load, batchLoad)
	filled.times = filled.times.withDefaults()
	return filled, nil
}

// slack is how many commits beyond Retain gather before they are compacted
// together.
func (o Options) slack() store.Revision { return store.Revision(min(4096, max(1, o.Retain/8))) }
