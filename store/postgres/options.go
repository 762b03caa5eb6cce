package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Errors of databases that cannot be used. Match them with [errors.Is]. Nothing was changed in
// such a database.
var (
	// ErrForeign reports a schema with tables of another program.
	ErrForeign = errors.New("the schema is not a store of this driver")
	// ErrFormat reports a schema with a format version, or a server with a version, that this
	// driver does not support.
	ErrFormat = errors.New("the version is not supported")
	// ErrPrivilege reports a role without the privileges that a store needs.
	ErrPrivilege = errors.New("the role lacks a privilege")
	// ErrReadOnly reports a server that accepts no writes, such as a standby.
	ErrReadOnly = errors.New("the server is read-only")
	// ErrCorrupt reports a schema with inconsistent tables. Restore a backup.
	ErrCorrupt = errors.New("the tables are damaged")
)

// Options tunes a [Store]. A nil *Options and zero fields mean the defaults. Negative numbers are
// [store.ErrInvalid].
type Options struct {
	// Retain is the number of commits that stay available to watches and to listings of the past;
	// default 100,000. Up to an eighth more may be kept for a while. Stores of one schema should
	// agree; the smallest number counts.
	Retain int

	// Poll is the interval at which watches look for commits of other processes without a
	// notification; default 500 ms.
	Poll time.Duration

	// NoListen does without the connection that receives notifications: watches find commits of
	// other processes by polling alone.
	NoListen bool

	// NewEpoch starts a new history. Set it for the first opening after the database was restored
	// from a backup, and never otherwise.
	//
	// Commits made after the backup are lost, but clients still hold their revisions. So the
	// store takes a new epoch, advances its revision by 2^40 and a random number below 2^50, so
	// that two restores of one backup differ, and compacts everything before: positions of the
	// lost history are [store.ErrGone], and its revisions match no entry.
	NewEpoch bool

	times times
	load  int // of stored values, in bytes; see batchLoad
}

const (
	epochJump   = 1 << 40 // the least distance between two histories
	epochSpread = 1 << 50 // bounds the random distance in addition
	lastEpoch   = 1 << 62 // no new history begins beyond this revision
)

func (o Options) withDefaults() Options {
	o.Retain = cmp.Or(o.Retain, 100_000)
	o.Poll = cmp.Or(o.Poll, 500*time.Millisecond)
	o.load = cmp.Or(o.load, batchLoad)
	o.times = o.times.withDefaults()
	return o
}

func (o Options) check() error {
	switch {
	case o.Retain < 0:
		return fmt.Errorf("%w: Options.Retain is %d: it must not be negative", store.ErrInvalid, o.Retain)
	case o.Poll < 0:
		return fmt.Errorf("%w: Options.Poll is %v: it must not be negative", store.ErrInvalid, o.Poll)
	}
	return nil
}

// slack is the number of commits beyond Retain that gather before they are compacted together.
func (o Options) slack() store.Revision { return store.Revision(min(4096, max(1, o.Retain/8))) }
