package replicas

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/namespace/members/internal/instance"
)

// Options configure a replica. The zero value of a field selects its default.
type Options struct {
	// Prefix is the prefix of the registry whose work is divided (registry.Options.Prefix),
	// one or more path segments; default "registry".
	Prefix string
	// Label names this replica for people: at most 253 bytes of UTF-8 without control
	// characters; default the host's name and the process's number.
	Label string
	// Beat is the interval at which a member renews its lease; default 2 s. Each renewal
	// costs a write. All replicas of a group should use the same Beat.
	Beat time.Duration
	// Patience is the length of the lease: a member that is silent for longer owns nothing,
	// and others take over its share. Default three Beats, at least two. A replica that is
	// suspended for longer, cannot reach the store, or writes slower than that is left out.
	// All replicas of a group must use the same Patience: otherwise one with a shorter
	// Patience takes names that a silent one with a longer Patience still owns.
	Patience time.Duration
	// Hooks observe the replica. By default there are none.
	Hooks Hooks
}

// Hooks observe a replica, for logs and metrics. Each function is optional. They are called
// one at a time by the goroutine that runs [Replica.Run], so they must return quickly. A
// hook that panics makes Run panic, after it has left the group.
type Hooks struct {
	// Joined: the replica is a member and owns its share.
	Joined func(self Member)
	// Lapsed: the replica owns nothing until it has joined again.
	Lapsed func(cause error)
	// Members: the members have changed. Called only while the replica is a member.
	Members func(members []Member)
	// Expelled: this replica has deleted the entry of a silent member.
	Expelled func(member Member)
	// Failed: a call to the store has failed and will be retried.
	Failed func(err error)
}

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, keypath.DefaultPrefix)
	o.Label = cmp.Or(o.Label, instance.DefaultLabel())
	o.Beat = cmp.Or(o.Beat, 2*time.Second)
	o.Patience = cmp.Or(o.Patience, 3*o.Beat)
	return o
}

func (o Options) validate() error {
	if err := keypath.Check("Options.Prefix", o.Prefix); err != nil {
		return err
	}
	if err := instance.CheckText("Options.Label", o.Label, instance.MaxLabel); err != nil {
		return err
	}
	switch {
	case o.Beat < 0:
		return fmt.Errorf("Options.Beat is %v: it must not be negative", o.Beat)
	case o.Patience/2 < o.Beat:
		return fmt.Errorf("Options.Patience is %v: it must be at least two Beats (of %v), or one slow write ends the lease", o.Patience, o.Beat)
	}
	return nil
}
