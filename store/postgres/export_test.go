package postgres

import "time"

// WriterLock returns the statement that takes the writer lock of a schema.
func WriterLock(schema string) string { return newStatements(schema, times{}).lock }

// Definite reports whether a commit that failed with err certainly wrote nothing.
func Definite(err error) bool { return definite(err) }

// BeforeCommit marks err as an error of a statement before COMMIT.
func BeforeCommit(err error) error { return &uncommittedError{err} }

// Refusal explains an error of a call that certainly wrote nothing.
func Refusal(err error) error { return refusal(err) }

// Queued returns the number of requests in the queue.
func (s *Store) Queued() int { return s.queue.Len() }

// Light returns o with a lower bound for the stored values of a batch.
func Light(o Options, bytes int) *Options {
	o.load = bytes
	return &o
}

// Hurried returns o with short time limits. Zero means the default.
func Hurried(o Options, stall, lock, slice, commit time.Duration) *Options {
	o.times = times{stall, lock, slice, commit}
	return &o
}
