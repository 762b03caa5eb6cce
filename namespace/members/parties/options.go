package parties

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/namespace/members/internal/instance"
)

// Options configure [Announce]. The zero value of a field selects its default.
type Options struct {
	// Prefix is the prefix of the registry that the party works for
	// (registry.Options.Prefix), one or more path segments; default "registry".
	Prefix string
	// Contact is whom to ask about the party: an address, a channel, a page. At
	// most 1024 bytes of UTF-8 without control characters; default none.
	Contact string
	// Label names this instance for people: at most 253 bytes of UTF-8 without control
	// characters; default the host's name and the process's number.
	Label string
	// Beat is the interval at which an instance renews its entry, which costs a write.
	// Default 10 s, or a third of Patience if that is less; at least 100 ms.
	Beat time.Duration
	// Patience is how long an instance may be silent before it counts as missing. Default
	// 30 s, or three Beats if that is more; at least two Beats, at most a day.
	Patience time.Duration
	// Hooks observe Announce. By default there are none.
	Hooks Hooks
}

// Hooks observe [Announce], for logs and metrics. Each function is optional. They are called
// by the goroutine that announces, so they must return quickly. A hook that panics makes
// Announce panic without leaving.
type Hooks struct {
	// Announced: the instance is recorded, for the first time or again after a failure.
	Announced func()
	// Failed: a call to the store has failed and will be retried.
	Failed func(err error)
}

const (
	minBeat         = 100 * time.Millisecond
	defaultPatience = 30 * time.Second
	maxPatience     = 24 * time.Hour
	maxContact      = 1024
)

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, keypath.DefaultPrefix)
	o.Label = cmp.Or(o.Label, instance.DefaultLabel())
	if o.Beat == 0 {
		o.Beat = 10 * time.Second
		if o.Patience > 0 {
			o.Beat = min(o.Beat, max(o.Patience/3, minBeat))
		}
	}
	if o.Patience == 0 {
		o.Patience = min(max(defaultPatience, 3*o.Beat), maxPatience)
	}
	return o
}

// Validate returns an error if an option is out of range. [Announce] calls it.
func (o Options) Validate() error {
	o = o.withDefaults()
	if err := o.texts(); err != nil {
		return fmt.Errorf("parties: %w", err)
	}
	switch {
	case o.Beat < minBeat:
		return fmt.Errorf("parties: Options.Beat is %v: it must be at least %v, because each costs a write", o.Beat, minBeat)
	case o.Beat > maxPatience/2:
		return fmt.Errorf("parties: Options.Beat is %v: it must be at most %v, half of the longest Patience", o.Beat, maxPatience/2)
	case o.Patience > maxPatience:
		return fmt.Errorf("parties: Options.Patience is %v: it must be at most %v", o.Patience, maxPatience)
	case o.Patience/2 < o.Beat:
		return fmt.Errorf("parties: Options.Patience is %v: it must be at least two Beats (of %v), or one slow write makes the instance missing", o.Patience, o.Beat)
	}
	return nil
}

func (o Options) texts() error {
	if err := keypath.Check("Options.Prefix", o.Prefix); err != nil {
		return err
	}
	if err := instance.CheckText("Options.Label", o.Label, instance.MaxLabel); err != nil {
		return err
	}
	return instance.CheckText("Options.Contact", o.Contact, maxContact)
}
