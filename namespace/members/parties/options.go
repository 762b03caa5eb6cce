package parties

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/store"
)

// Options are what a host may choose. The zero value of each field, and a nil
// *Options, stand for the default; what is negative or out of range is refused with
// [store.ErrInvalid].
type Options struct {
	// Prefix is that of the registry that the party works for, one or more path
	// segments; default "registry", as registry.Options.Prefix has it.
	Prefix string
	// Contact is whom to ask about the party: an address, a channel, a page. At most
	// 1024 bytes of UTF-8 without control characters; default: nobody.
	Contact string
	// Label tells people which instance this is; default the host's name and the
	// process's number. At most 253 bytes of UTF-8 without control characters.
	Label string
	// Beat is how often an instance shows that it lives; default 10 s, or a third of
	// Patience if that is less; at least 100 ms. Each costs a write.
	Beat time.Duration
	// Patience is after how much silence an instance is missing; default 30 s, or three
	// Beats if that is more; at least two Beats, at most a day.
	Patience time.Duration
	// Hooks are told what happens; default: nobody is.
	Hooks Hooks
}

// Hooks are told what [Announce] does, for logs and metrics. Each is optional. They
// are called by the goroutine that announces; so they must be quick. One that panics
// makes Announce panic, without leaving.
type Hooks struct {
	// Announced: the instance is known, for the first time or again after a failure.
	Announced func()
	// Failed: a call to the store has failed, and will be repeated.
	Failed func(err error)
}

// The defaults and bounds of [Options].
const (
	defaultPrefix   = "registry"
	defaultBeat     = 10 * time.Second
	defaultPatience = 30 * time.Second

	minBeat     = 100 * time.Millisecond
	maxPatience = 24 * time.Hour
	maxLabel    = 253
	maxContact  = 1024
	maxPrefix   = 253
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
	if err := checkPrefix(opts.Prefix); err != nil {
		return opts, err
	}
	if err := checkText("Options.Label", opts.Label, maxLabel); err != nil {
		return opts, err
	}
	if err := checkText("Options.Contact", opts.Contact, maxContact); err != nil {
		return opts, err
	}
	if opts.Label == "" {
		opts.Label = defaultLabel()
	}
	return opts, opts.timing()
}

// timing checks Beat and Patience and fills in what is not chosen, so that the two
// fit.
func (o *Options) timing() error {
	switch {
	case o.Beat < 0:
		return invalid("Options.Beat cannot be negative, got %v", o.Beat)
	case o.Patience < 0:
		return invalid("Options.Patience cannot be negative, got %v", o.Patience)
	case o.Beat > 0 && o.Beat < minBeat:
		return invalid("Options.Beat (%v) must be at least %v: each costs a write", o.Beat, minBeat)
	case o.Beat > maxPatience/2:
		return invalid("Options.Beat (%v) cannot exceed %v, half of the greatest Patience", o.Beat, maxPatience/2)
	case o.Patience > maxPatience:
		return invalid("Options.Patience (%v) cannot exceed %v", o.Patience, maxPatience)
	}
	if o.Beat == 0 {
		o.Beat = defaultBeat
		if o.Patience > 0 {
			o.Beat = min(o.Beat, max(o.Patience/3, minBeat))
		}
	}
	if o.Patience == 0 {
		o.Patience = min(max(defaultPatience, 3*o.Beat), maxPatience)
	}
	if o.Patience/2 < o.Beat {
		return invalid("Options.Patience (%v) must be at least two Beats (of %v), or no slow write is ever forgiven", o.Patience, o.Beat)
	}
	return nil
}

// root is the prefix of all entries.
func (o *Options) root() string { return "/" + o.Prefix + "/.parties/" }

// below is the prefix of the entries of f's instances.
func (o *Options) below(f finalizer.Name) string { return o.root() + string(f) + "/" }

// defaultLabel names the process on its host.
func defaultLabel() string {
	host, err := os.Hostname()
	if err != nil || host == "" || checkText("", host, maxLabel/2) != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// checkText refuses what cannot be shown to people in one line.
func checkText(what, text string, most int) error {
	switch {
	case len(text) > most:
		return invalid("%s has %d bytes, at most %d are allowed", what, len(text), most)
	case !utf8.ValidString(text):
		return invalid("%s %q is not valid UTF-8", what, text)
	case strings.ContainsFunc(text, unicode.IsControl):
		return invalid("%s %q has a control character", what, text)
	}
	return nil
}

// checkPrefix refuses what cannot be one or more segments of a key.
func checkPrefix(prefix string) error {
	if err := checkText("Options.Prefix", prefix, maxPrefix); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		switch {
		case segment == "":
			return invalid("Options.Prefix %q has an empty segment", prefix)
		case segment[0] == '.':
			return invalid("Options.Prefix %q has a segment that begins with '.'", prefix)
		case strings.Contains(segment, "%"):
			return invalid("Options.Prefix %q has a '%%'", prefix)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("parties: %w: "+format, append([]any{store.ErrInvalid}, args...)...)
}
