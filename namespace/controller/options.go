package controller

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
)

// Options configure a controller. The zero value of a field selects its default.
type Options struct {
	// Workers bounds the passes of namespaces that are new or made progress in their last
	// pass; a pass counts for up to Long. Default 64.
	Workers int
	// SlowWorkers bounds all other passes, so that they never take the place of a worker: a
	// half for passes that run longer than Long, an eighth for namespaces whose last pass
	// made no progress, the rest for namespaces whose sources did not answer. Default 4 * Workers, at least 3.
	//
	// A pass whose sources have not answered for Long is interrupted if another needs its
	// slot, and retried with twice the time, up to MaxPatience. So a namespace whose sources
	// answer never waits longer than Long for the sources of others (rule R10).
	SlowWorkers int
	// Waits bounds the concurrent calls to [deleter.Waiter], each of which costs a
	// goroutine. Beyond it a namespace gets no wait and the oldest wait is canceled; both
	// namespaces rely on their backoff. Default 1024.
	Waits int
	// Long is how long a pass may occupy a worker, and how long it may run without an answer
	// of a source ([deleter.Trace]) before it counts as hanging. Default 500 ms.
	Long time.Duration
	// Patience is how long the sources may take to answer in one pass before they
	// count as failed; default 2 min. It must exceed [deleter.Options].CallTimeout, by
	// default 1 min: a source that hangs is named, and can be waived, only if its call
	// fails first. If a pass runs out of Patience, the next pass of that namespace gets
	// twice as long, up to MaxPatience, until a pass without failures takes less than Patience.
	// MaxPatience bounds the delay of a namespace after the end of an outage; default 10 min,
	// or Patience if that is longer. A namespace with a source that needs longer for one pass
	// is never finalized.
	Patience, MaxPatience time.Duration
	// MinDelay and MaxDelay are the first and the longest delay of the exponential backoff
	// of a namespace; defaults 5 ms, and 60 s or MinDelay if that is longer. Each delay is shortened by up to a quarter at
	// random. Progress resets the backoff.
	MinDelay, MaxDelay time.Duration
	// Resync is the interval at which terminating namespaces are listed again, in case the
	// storage lost an event; default 10 min. Known namespaces keep their backoff.
	Resync time.Duration
	// Division divides the namespaces between controllers of one party. By default this
	// controller works on all of them. A namespace of another controller costs about 220
	// bytes and no queue, timer, wait or pass.
	Division Division
	// Hooks observe the controller, for metrics and traces. Each event is reported to all
	// of them, in their order. Default none.
	Hooks []Hooks
	// Logger gets one line for each change of a namespace's state, never one for each
	// pass. By default nothing is logged.
	Logger *slog.Logger
}

// Division divides the namespaces between controllers of one party, so that N controllers
// together do the work of one. While two controllers own a namespace both work on it, which
// is safe (rule R11). While none owns it, it waits. A Division must therefore give each
// namespace an owner eventually, and report the change.
//
// The scheduling goroutine calls the methods often, so they must be quick. If one panics,
// the controller logs that, stops using the division for the rest of the run, and works on
// all namespaces.
type Division interface {
	// Owns reports whether the namespace currently belongs to this controller. The
	// controller asks before each pass.
	Owns(name string) bool
	// Changed returns a channel that is closed when Owns may answer differently than
	// before this call, or nil if it never will. The controller then asks again for all
	// namespaces, and enqueues those that it has gained as new ones.
	Changed() <-chan struct{}
}

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(o.Workers, 64)
	o.SlowWorkers = cmp.Or(o.SlowWorkers, 4*o.Workers)
	o.Waits = cmp.Or(o.Waits, 1024)
	o.Long = cmp.Or(o.Long, 500*time.Millisecond)
	o.Patience = cmp.Or(o.Patience, 2*time.Minute)
	o.MaxPatience = cmp.Or(o.MaxPatience, max(10*time.Minute, o.Patience))
	o.MinDelay = cmp.Or(o.MinDelay, 5*time.Millisecond)
	o.MaxDelay = cmp.Or(o.MaxDelay, max(time.Minute, o.MinDelay))
	o.Resync = cmp.Or(o.Resync, 10*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	for _, n := range []struct {
		field      string
		value, min int
	}{{"Workers", o.Workers, 1}, {"SlowWorkers", o.SlowWorkers, 3}, {"Waits", o.Waits, 1}} {
		if n.value < n.min {
			return fmt.Errorf("controller: Options.%s is %d: it must be at least %d", n.field, n.value, n.min)
		}
	}
	for _, d := range []struct {
		field      string
		value, min time.Duration
		minField   string
	}{
		{"Long", o.Long, 0, ""},
		{"Patience", o.Patience, 0, ""},
		{"MaxPatience", o.MaxPatience, o.Patience, "Patience"},
		{"MinDelay", o.MinDelay, 0, ""},
		{"MaxDelay", o.MaxDelay, o.MinDelay, "MinDelay"},
		{"Resync", o.Resync, 0, ""},
	} {
		switch {
		case d.value >= d.min:
		case d.minField == "":
			return fmt.Errorf("controller: Options.%s is %v: it must not be negative", d.field, d.value)
		default:
			return fmt.Errorf("controller: Options.%s is %v: it must be at least %s (%v)", d.field, d.value, d.minField, d.min)
		}
	}
	return nil
}
