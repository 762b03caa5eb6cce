package controller

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Options are what a host may choose. The zero value of each field, and a nil
// *Options, stand for the default; a negative value is refused by [New].
type Options struct {
	// Workers bounds the passes of namespaces that are new or made progress in their last
	// pass; a pass counts for up to Long. Default 64.
	Workers int
	// Parked bounds all other passes: half of the slots are for passes that run longer than
	// Long, an eighth for namespaces whose sources answered in the last pass without progress,
	// and the rest for namespaces whose sources did not answer. Default 4 * Workers, at
	// least 3. A pass whose sources have not answered for Long is interrupted if another needs
	// its slot, and retried with twice the time, up to MaxPatience. So a namespace whose
	// sources answer never waits longer than Long for the sources of others (rule R10).
	Parked int
	// Waits bounds how many namespaces are waited for at the same time through
	// [deleter.Waiter]; default 1024. Each costs a goroutine. Beyond it the longest
	// wait is given up, and its namespace is looked at again by time.
	Waits int
	// Long is how long a pass may occupy a worker, and how long it may run without an answer
	// of a source ([deleter.Trace]) before it counts as hanging; default 500 ms.
	Long time.Duration
	// Patience is how long the sources may take to answer in one pass before they
	// count as failed; default 1 min. It doubles with each pass of a namespace that
	// was not enough, up to MaxPatience, and lasts until a pass has needed less than Patience.
	// MaxPatience bounds the delay of a namespace after the end of an outage; default 10 min,
	// or Patience if that is longer. A namespace with a source that needs longer for one pass
	// is never finalized.
	Patience, MaxPatience time.Duration
	// MinDelay and MaxDelay are the first and the longest delay of the exponential
	// backoff, for each namespace on its own; defaults 5 ms and 60 s. The delay is cut
	// by up to a quarter at random. Progress starts it anew.
	MinDelay, MaxDelay time.Duration
	// Resync is the interval at which terminating namespaces are listed again, in case the
	// storage lost an event; default 10 min. Known namespaces keep their backoff.
	Resync time.Duration
	// Division says which namespaces are this controller's, where several of one party
	// divide the work; default: all. Package replicas has one. What is another's costs
	// about 220 bytes and nothing else: no queue, no timer, no wait, no pass.
	Division Division
	// Hooks observe the controller, for metrics and traces. Each event is reported to all
	// of them, in their order; default none.
	Hooks []Hooks
	// Logger gets one line for each change of a namespace's state, never one for each
	// pass; default: none.
	Logger *slog.Logger
}

// The defaults of [Options].
const (
	defaultWorkers  = 64
	defaultWaits    = 1024
	defaultLong     = 500 * time.Millisecond
	defaultPatience = time.Minute
	defaultMinDelay = 5 * time.Millisecond
	defaultMaxDelay = time.Minute

	defaultMaxPatience = 10 * time.Minute
	defaultResync      = 10 * time.Minute
)

// withDefaults returns the options to run with.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	var err error
	number := func(field string, v *int, fallback, least int) {
		if *v == 0 {
			*v = fallback
		}
		if *v < least && err == nil {
			err = optionError(fmt.Sprintf("Options.%s must be at least %d, got %d", field, least, *v))
		}
	}
	duration := func(field string, v *time.Duration, fallback time.Duration) {
		if *v == 0 {
			*v = fallback
		}
		if *v < 0 && err == nil {
			err = optionError(fmt.Sprintf("Options.%s cannot be negative, got %v", field, *v))
		}
	}
	number("Workers", &opts.Workers, defaultWorkers, 1)
	number("Parked", &opts.Parked, 4*opts.Workers, 3)
	number("Waits", &opts.Waits, defaultWaits, 1)
	duration("Long", &opts.Long, defaultLong)
	duration("Patience", &opts.Patience, defaultPatience)
	duration("MinDelay", &opts.MinDelay, defaultMinDelay)
	duration("MaxDelay", &opts.MaxDelay, max(defaultMaxDelay, opts.MinDelay))
	duration("MaxPatience", &opts.MaxPatience, max(defaultMaxPatience, opts.Patience))
	duration("Resync", &opts.Resync, defaultResync)
	ordered := func(least, most string, a, b time.Duration) {
		if a > b && err == nil {
			err = optionError(fmt.Sprintf("Options.%s (%v) cannot exceed Options.%s (%v)", least, a, most, b))
		}
	}
	ordered("MinDelay", "MaxDelay", opts.MinDelay, opts.MaxDelay)
	ordered("Patience", "MaxPatience", opts.Patience, opts.MaxPatience)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return opts, err
}

func optionError(message string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: "namespaces", Message: message}
}
