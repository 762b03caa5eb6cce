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
	// Workers bounds the passes that run at the same time; default 64, at least 4.
	// Half of them serve namespaces that are new or got on in their last pass, a
	// quarter those that did not, and a quarter the passes that run longer than Long.
	// Therefore what is sick never takes the place of what is not (rule R10).
	Workers int
	// Waits bounds how many namespaces are waited for at the same time through
	// [deleter.Waiter]; default 1024. Each costs a goroutine. Beyond it the longest
	// wait is given up, and its namespace is looked at again by time.
	Waits int
	// Long is after how much time a pass makes room for others; default 500 ms. It
	// goes on in the share of the long ones, or is interrupted and continued there
	// later if that is full and others wait.
	Long time.Duration
	// Patience is how long the sources may take to answer in one pass before they
	// count as failed; default 1 min. It doubles with each pass of a namespace that
	// was not enough, so that a slow source is finished with at last (rule R12), and
	// lasts until a pass has needed less than the ordinary one.
	Patience time.Duration
	// MinDelay and MaxDelay are the first and the longest delay of the exponential
	// backoff, for each namespace on its own; defaults 5 ms and 60 s. The delay is cut
	// by up to a quarter at random. Progress starts it anew.
	MinDelay, MaxDelay time.Duration
	// Division says which namespaces are this controller's, where several of one party
	// divide the work; default: all. Package replicas has one. What is another's costs
	// about 220 bytes and nothing else: no queue, no timer, no wait, no pass.
	Division Division
	// Hooks are told what happens; default: nobody is.
	Hooks Hooks
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

	minWorkers = 4 // so that each share has a worker, and the healthy have half of them
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
	number("Workers", &opts.Workers, defaultWorkers, minWorkers)
	number("Waits", &opts.Waits, defaultWaits, 1)
	duration("Long", &opts.Long, defaultLong)
	duration("Patience", &opts.Patience, defaultPatience)
	duration("MinDelay", &opts.MinDelay, defaultMinDelay)
	duration("MaxDelay", &opts.MaxDelay, max(defaultMaxDelay, opts.MinDelay))
	if err == nil && opts.MinDelay > opts.MaxDelay {
		err = optionError(fmt.Sprintf("Options.MinDelay (%v) cannot exceed Options.MaxDelay (%v)", opts.MinDelay, opts.MaxDelay))
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return opts, err
}

func optionError(message string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: "namespaces", Message: message}
}
