package etcd

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
)

// Errors in addition to those of package store. Match them with [errors.Is]. An opening that
// fails has written nothing, except perhaps the marker of a new store.
var (
	// ErrVersion reports a server older than 3.5.13, or one with an unreadable version. See
	// [Options.AnyVersion].
	ErrVersion = errors.New("the version of the server is not supported")
	// ErrForeign reports a prefix that another program uses.
	ErrForeign = errors.New("another program uses the prefix")
	// ErrFormat reports a prefix with a layout version that this driver does not support.
	ErrFormat = errors.New("the format version of the prefix is not supported")
	// ErrDenied reports that the server does not know the user, or denies the operation.
	ErrDenied = errors.New("the server denies this to the user")
	// ErrCluster reports that the connection leads to another cluster than at the opening of the
	// store. The store then refuses all calls; open it again.
	ErrCluster = errors.New("the connection leads to another cluster than at the opening of the store")
)

// Options tunes a [Store]. A nil *Options and zero fields mean the defaults. Negative numbers are
// [store.ErrInvalid].
type Options struct {
	// AnyVersion accepts servers before 3.5.13, whose watches can lose events.
	AnyVersion bool

	// NewEpoch makes every earlier position [store.ErrGone]. Set it for the first opening after
	// the cluster was restored from a backup, and never otherwise. See the package documentation
	// about revisions.
	NewEpoch bool

	// Compact makes the store compact the history of the cluster: changes younger than this
	// duration stay, changes older than twice the duration are gone. Of all stores at this
	// prefix, in any number of processes, one compacts per round. The history belongs to the
	// cluster, so this affects all its users. Zero leaves compaction to the server
	// (--auto-compaction-retention) and to [Store.Compact].
	Compact time.Duration

	// Operations is the limit of the servers for one transaction (--max-txn-ops); default 128.
	Operations int

	// RequestBytes is the limit of the servers for one request (--max-request-bytes); default 1.5
	// MiB, at least 64 KiB. See [Store.Limits].
	RequestBytes int

	pace pace // shortened in tests
}

// pace holds the time limits of a store.
type pace struct {
	open     time.Duration       // for a server to report its version
	others   time.Duration       // for the other servers, once one has reported
	attempt  time.Duration       // for the answer to one read, and for a write to find a connection
	retries  int                 // of reads, and of writes that the server certainly refused
	close    time.Duration       // for commits in progress at Close
	bookmark time.Duration       // between two requests for progress
	catchUp  time.Duration       // the same until the first bookmark
	stall    time.Duration       // for a watch stream that does not answer
	retry    backoff.Exponential // between attempts
}

const leastRequestBytes = 64 << 10

var defaultPace = pace{
	open:     5 * time.Second,
	others:   500 * time.Millisecond,
	attempt:  5 * time.Second,
	retries:  6,
	close:    time.Second,
	bookmark: 2 * time.Second,
	catchUp:  20 * time.Millisecond,
	stall:    5 * time.Second,
	retry:    backoff.Exponential{Min: 20 * time.Millisecond, Max: time.Second},
}

func (o Options) withDefaults() Options {
	o.Operations = cmp.Or(o.Operations, 128)
	o.RequestBytes = cmp.Or(o.RequestBytes, 3<<19)
	o.pace = cmp.Or(o.pace, defaultPace)
	return o
}

func (o Options) check() error {
	switch {
	case o.Compact < 0:
		return fmt.Errorf("%w: Options.Compact is %v: it must not be negative", store.ErrInvalid, o.Compact)
	case o.Operations < 0:
		return fmt.Errorf("%w: Options.Operations is %d: it must not be negative", store.ErrInvalid, o.Operations)
	case o.RequestBytes != 0 && o.RequestBytes < leastRequestBytes:
		return fmt.Errorf("%w: Options.RequestBytes is %d: it must be at least %d", store.ErrInvalid, o.RequestBytes, leastRequestBytes)
	}
	return nil
}

// limits returns limits that keep the request of a transaction within the limit of the servers:
// two thirds are for keys and values of operations, the rest for conditions and the encoding.
func (o Options) limits() store.Limits {
	bytes := o.RequestBytes / 3 * 2
	return store.Limits{
		Key:        min(2<<10, bytes/16),
		Value:      bytes,
		Operations: o.Operations,
		Bytes:      bytes + bytes/8,
	}
}
