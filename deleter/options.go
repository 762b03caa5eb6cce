package deleter

import (
	"fmt"
	"time"
)

// Options tune a composed [Deleter]. Zero fields, and a nil *Options, mean the
// defaults; negative ones are [ErrInvalid].
type Options struct {
	// Parallelism is how many calls to sources one pass has in flight, all types
	// together. Default 128. Passes for several namespaces do not share it, so that
	// a slow one takes nothing from the others (rule R10).
	Parallelism int
	// ObjectParallelism is how many of these calls delete single objects of the same
	// type. Default 16.
	ObjectParallelism int
	// PageSize is how many objects a listing asks for at once. Default 500.
	PageSize int
	// MaxDeletes is how many objects of one type a pass deletes before it leaves the
	// rest to the next pass. Default 10,000.
	MaxDeletes int
	// Samples is how many object names a report carries, of a type and of each of its
	// finalizers. Default 5.
	Samples int
	// CallTimeout bounds each call to a source, and discovery. Default one minute. A
	// source that hangs has failed after that, and may be waived ([Target].Waived) only if
	// the pass goes on then: one that is cut short before, or at that moment, waives nothing.
	CallTimeout time.Duration
}

const defaultPageSize = 500

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	for _, field := range []struct {
		name     string
		value    *int
		standard int
	}{
		{"Parallelism", &opts.Parallelism, 128},
		{"ObjectParallelism", &opts.ObjectParallelism, 16},
		{"PageSize", &opts.PageSize, defaultPageSize},
		{"MaxDeletes", &opts.MaxDeletes, 10_000},
		{"Samples", &opts.Samples, 5},
	} {
		if *field.value < 0 {
			return Options{}, fmt.Errorf("%w option %s: must not be negative, is %d", ErrInvalid, field.name, *field.value)
		}
		if *field.value == 0 {
			*field.value = field.standard
		}
	}
	if opts.CallTimeout < 0 {
		return Options{}, fmt.Errorf("%w option CallTimeout: must not be negative, is %v", ErrInvalid, opts.CallTimeout)
	}
	if opts.CallTimeout == 0 {
		opts.CallTimeout = time.Minute
	}
	return opts, nil
}
