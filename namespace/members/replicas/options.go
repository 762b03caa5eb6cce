package replicas

import (
	"fmt"
	"os"
	"time"
	"unicode/utf8"
)

// Options are what a host may choose. The zero value of each field, and a nil
// *Options, stand for the default; a negative value is refused by [New].
type Options struct {
	// Prefix is that of the registry whose work is divided, one or more path segments;
	// default "registry", as registry.Options.Prefix has it.
	Prefix string
	// Label tells people which replica this is; default the host's name and the
	// process's number. At most 253 bytes of UTF-8.
	Label string
	// Beat is how often a member shows that it lives; default 2 s. Each costs a
	// write. The replicas of a group should agree on it.
	Beat time.Duration
	// Patience is for how long a member may be silent before others take over its
	// share, and for how long it owns that without having been heard; default three
	// Beats, at least two. A replica that is paused for longer, or cannot reach the
	// store, is left out; so is one whose writes take longer. The replicas of a group
	// must agree on it: the greatest bounds the takeover, the least those who own.
	Patience time.Duration
	// Hooks are told what happens; default: nobody is.
	Hooks Hooks
}

// Hooks are told what a replica sees and does, for logs and metrics. Each is
// optional. They are called one at a time, by the goroutine that runs [Replica.Run];
// so they must be quick. One that panics makes Run panic, after it has left.
type Hooks struct {
	// Joined: the replica is a member, and owns its share.
	Joined func(self Member)
	// Lapsed: the replica owns nothing any more, until it has joined anew.
	Lapsed func(why error)
	// Members: the members have changed; told while the replica is one.
	Members func(members []Member)
	// Expelled: this replica has deleted the entry of a member that was silent.
	Expelled func(member Member)
	// Failed: a call to the store has failed, and will be repeated.
	Failed func(err error)
}

// The defaults of [Options].
const (
	defaultPrefix = "registry"
	defaultBeat   = 2 * time.Second

	maxLabel = 253
)

// withDefaults returns the options to run with.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Prefix == "" {
		opts.Prefix = defaultPrefix
	}
	if err := checkPath("Options.Prefix", opts.Prefix); err != nil {
		return opts, err
	}
	switch {
	case len(opts.Label) > maxLabel:
		return opts, invalid("Options.Label has %d bytes, at most %d are allowed", len(opts.Label), maxLabel)
	case !utf8.ValidString(opts.Label):
		return opts, invalid("Options.Label %q is not valid UTF-8", opts.Label)
	case opts.Beat < 0:
		return opts, invalid("Options.Beat cannot be negative, got %v", opts.Beat)
	case opts.Patience < 0:
		return opts, invalid("Options.Patience cannot be negative, got %v", opts.Patience)
	}
	if opts.Label == "" {
		opts.Label = defaultLabel()
	}
	if opts.Beat == 0 {
		opts.Beat = defaultBeat
	}
	if opts.Patience == 0 {
		opts.Patience = 3 * opts.Beat
	}
	if opts.Patience/2 < opts.Beat {
		return opts, invalid("Options.Patience (%v) must be at least two Beats (of %v), or no slow write is ever forgiven", opts.Patience, opts.Beat)
	}
	return opts, nil
}

// defaultLabel names the process on its host.
func defaultLabel() string {
	host, err := os.Hostname()
	if err != nil || host == "" || len(host) > maxLabel/2 || !utf8.ValidString(host) {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
