package postgres

import "time"

// WriterLock is the statement that takes the lock of all writers of a schema.
func WriterLock(schema string) string { return newStatements(schema, times{}).lock }

// Definite reports whether a commit that failed with err has surely not happened.
func Definite(err error) bool { return definite(err) }

// BeforeCommit marks err as one of a statement before COMMIT.
func BeforeCommit(err error) error { return &uncommittedError{err} }

// Refusal explains an error of a call that surely wrote nothing.
func Refusal(err error) error { return refusal(err) }

// Queued is how many requests the committer has not taken.
func (s *Store) Queued() int { return s.queue.Len() }

// Light returns o with a lower bound of stored values that go through one statement.
func Light(o Options, bytes int) *Options {
	o.load = bytes
	return &o
}

// Hurried returns o with short limits of time; zero leaves a default.
func Hurried(o Options, stall, turn, slice, commit time.Duration) *Options {
	o.times = times{stall, turn, slice, commit}
	return &o
}
