package etcd

import (
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Errors beyond those of package store; match them with [errors.Is]. An
// opening that fails has written nothing, except perhaps the marker of a new store.
var (
	// ErrVersion is a server older than 3.5.13, or one whose version cannot be read;
	// see [Options.AnyVersion].
	ErrVersion = errors.New("the version of the server is not supported")
	// ErrForeign is a prefix that somebody else uses.
	ErrForeign = errors.New("the prefix is in use by something else")
	// ErrFormat is a prefix in a version of the layout that this driver does not know.
	ErrFormat = errors.New("the prefix is of another format version")
	// ErrDenied is a user whom the server does not know, or does not let do this.
	ErrDenied = errors.New("the server denies it to this user")
	// ErrCluster is a connection that leads to another cluster than when the store was
	// opened. The store refuses everything from then on: open it again.
	ErrCluster = errors.New("the cluster is another one than when the store was opened")
)

// Options tunes a [Store]. A nil *Options and zero fields mean the defaults;
// negative numbers are [store.ErrInvalid].
type Options struct {
	// AnyVersion lets the store be opened on servers before 3.5.13, whose watches can
	// lose events.
	AnyVersion bool

	// NewEpoch is for the first opening after the cluster was restored from a backup:
	// every position of before is then [store.ErrGone]. Do not set it otherwise. See
	// the package documentation about revisions.
	NewEpoch bool

	// Compact makes the store compact the cluster's history: what is older than twice
	// this duration is gone, what is younger than it stays. Of all stores at this
	// prefix, in any number of processes, one does the work of a round. History is the
	// cluster's, so this is history of all its users. Zero leaves compaction to the
	// server (--auto-compaction-retention) and to [Store.Compact].
	Compact time.Duration

	// Operations is the limit of the servers for one transaction (--max-txn-ops). The
	// default is theirs, 128.
	Operations int

	// RequestBytes is the limit of the servers for one request (--max-request-bytes).
	// The default is theirs, 1.5 MiB; the least is 64 KiB. See [Store.Limits].
	RequestBytes int

	pace pace // of tests
}

// pace is how patient the store is.
type pace struct {
	open     time.Duration // for a server to tell its version
	others   time.Duration // for the other servers when one has told
	attempt  time.Duration // for the answer to one read
	retries  int           // of reads, and of writes that were surely refused
	close    time.Duration // for commits that are under way at Close
	bookmark time.Duration // between two requests for progress
	catchUp  time.Duration // the same until the first bookmark
	stall    time.Duration // for a watch stream that does not answer
	backoff  time.Duration // the least wait before a retry
	slowest  time.Duration // the longest
}

const (
	defaultOperations   = 128
	defaultRequestBytes = 3 << 19
	leastRequestBytes   = 64 << 10
)

var defaultPace = pace{
	open:     5 * time.Second,
	others:   500 * time.Millisecond,
	attempt:  5 * time.Second,
	retries:  6,
	close:    time.Second,
	bookmark: 2 * time.Second,
	catchUp:  20 * time.Millisecond,
	stall:    5 * time.Second,
	backoff:  20 * time.Millisecond,
	slowest:  time.Second,
}

// withDefaults returns a copy of o with its zero fields filled.
func (o *Options) withDefaults() (Options, error) {
	var filled Options
	if o != nil {
		filled = *o
	}
	switch {
	case filled.Compact < 0:
		return filled, fmt.Errorf("%w: Options.Compact is %v, it must not be negative", store.ErrInvalid, filled.Compact)
	case filled.Operations < 0:
		return filled, fmt.Errorf("%w: Options.Operations is %d, it must not be negative", store.ErrInvalid, filled.Operations)
	case filled.RequestBytes < 0, filled.RequestBytes > 0 && filled.RequestBytes < leastRequestBytes:
		return filled, fmt.Errorf("%w: Options.RequestBytes is %d, it must be at least %d", store.ErrInvalid, filled.RequestBytes, leastRequestBytes)
	}
	if filled.Operations == 0 {
		filled.Operations = defaultOperations
	}
	if filled.RequestBytes == 0 {
		filled.RequestBytes = defaultRequestBytes
	}
	if filled.pace == (pace{}) {
		filled.pace = defaultPace
	}
	return filled, nil
}

// limits returns what a transaction may carry, so that its request stays within the
// servers' limit: two thirds of it are for keys and values of operations, the rest
// for conditions and for what the encoding adds.
func (o Options) limits() store.Limits {
	bytes := o.RequestBytes / 3 * 2
	return store.Limits{
		Key:        min(2<<10, bytes/16),
		Value:      bytes,
		Operations: o.Operations,
		Bytes:      bytes + bytes/8,
	}
}
