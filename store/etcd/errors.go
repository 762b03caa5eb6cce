package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nslifecycle/nslifecycle/store"
)

// A kind classifies the error of a call.
//
//	kind       the server                              a write
//	refused    did nothing, and will refuse it again   fails
//	transient  did nothing, and may do it later        is submitted again, then ErrUnavailable
//	full       has no space left                       see [Store.refusedFull]
//	silent     did not answer                          ErrUnknownOutcome if it was submitted, else ErrUnavailable
//	unsure     gave another error                      ErrUnknownOutcome if it was submitted
type kind int

const (
	unsure kind = iota
	refused
	transient
	full
	silent
)

// definite returns the error of a call that certainly wrote nothing.
func (k kind) definite(shown error) error {
	switch k {
	case transient, silent:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, shown)
	case full:
		return fmt.Errorf("%w: compact and defragment the database, then disarm the alarm: %w", store.ErrFull, shown)
	}
	return shown
}

// isCompacted reports whether the server answered that the revision is compacted already.
func isCompacted(err error) bool { return rpctypes.Error(err) == rpctypes.ErrCompacted }

var errCorrupt = errors.New("the cluster reports corrupt data")

// refusal returns the meaning of an answer by which a server refuses a request, or nil. The
// server checks size, number of operations and rights before a write is proposed or applied, so
// the write changes nothing on any member. The quota is different, see [Store.refusedFull].
func refusal(e rpctypes.EtcdError) error {
	switch e {
	case rpctypes.ErrCompacted:
		return store.ErrGone
	case rpctypes.ErrFutureRev:
		return store.ErrFuture
	case rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps:
		return store.ErrTooLarge
	case rpctypes.ErrDuplicateKey, rpctypes.ErrEmptyKey:
		return store.ErrInvalid
	case rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound,
		rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrInvalidAuthMgmt, rpctypes.ErrAuthNotEnabled:
		return ErrDenied
	case rpctypes.ErrCorrupt:
		return errCorrupt
	case rpctypes.ErrNotCapable:
		return ErrVersion
	}
	return nil
}

// classify returns the kind of an error of the client, and the error to show.
func classify(err error) (kind, error) {
	known := rpctypes.Error(err)
	if e, ok := known.(rpctypes.EtcdError); ok {
		if meaning := refusal(e); meaning != nil {
			return refused, fmt.Errorf("%w: %w", meaning, e)
		}
		if e == rpctypes.ErrNoSpace {
			return full, e
		}
		// The interceptor of a server without a leader, and a server that is too far behind,
		// refuse a request before they process it.
		if e == rpctypes.ErrNoLeader || e == rpctypes.ErrTooManyRequests {
			return transient, e
		}
	}
	switch status.Code(err) {
	case codes.ResourceExhausted: // of gRPC: a message exceeds the limit of either side
		return refused, fmt.Errorf("%w: %w", store.ErrTooLarge, known)
	case codes.Unimplemented:
		return refused, fmt.Errorf("%w: %w", ErrVersion, known)
	case codes.Unauthenticated, codes.PermissionDenied:
		return refused, fmt.Errorf("%w: %w", ErrDenied, known)
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return silent, known
	}
	return unsure, known
}

// causeOr returns the cause of ctx if it has ended, and err otherwise.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
