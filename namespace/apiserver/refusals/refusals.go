// Package refusals records what was not allowed in a namespace as events there
// (objects of type "events", design document, "Authorization"), for whoever looks
// after the namespace:
//
//	recorder, err := refusals.New(r, nil)
//	server, err := apiserver.New(r, kinds, &apiserver.Options{Hooks: apiserver.Hooks{Refused: recorder.Record}, ...})
//	go recorder.Run(ctx)
//
// Each namespace has a bounded number of such events ([Options.Slots]). A quota on events
// counts them unless its rule has [Options.Reserves] as Uncounted:
//
//	counted, err := quota.New(quota.Rule{Resource: deleter.Resource{Name: "events"}, Uncounted: refusals.Options{}.Reserves})
package refusals

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// ErrDropped is why a refusal was not recorded when there was no room for it.
var ErrDropped = errors.New("too many refusals are waiting to be recorded")

// Options tunes a [Recorder]. Zero fields take the defaults.
type Options struct {
	// Component is whom the events name as their source; default "apiserver".
	Component string
	// Every is how often what was gathered is written; default 1 s. What is the same
	// within that time is written once.
	Every time.Duration
	// Writes is how many events are written each time at most; default 10.
	Writes int
	// Waiting is how many different refusals may wait; default 1,000. Further ones are
	// dropped.
	Waiting int
	// PerUser is how many of these may be about one user; default a tenth of Waiting, at
	// least 1.
	PerUser int
	// Slots is how many events the recorder has in a namespace at most; default 64. A
	// further one takes the place of another. Those about one user have an eighth of
	// them, at least one, so that nobody can crowd out everybody else.
	Slots int
	// Dropped is called for what is not recorded, and why; nil: nobody is told. That a
	// namespace does not exist, or is terminating, is no reason to call it.
	Dropped func(apiserver.Refusal, error)
}

// Reserves reports whether an event has one of the Slots names that a recorder with these
// options writes to. Use it as quota.Rule.Uncounted, so that refusals do not use up the
// quota of the tenant.
func (o Options) Reserves(event registry.Object) bool {
	o, err := o.withDefaults()
	if err != nil {
		return false
	}
	number, ok := strings.CutPrefix(event.Name, slotPrefix)
	slot, err := strconv.Atoi(number)
	return ok && err == nil && slot >= 0 && slot < o.Slots && strconv.Itoa(slot) == number
}

func (o Options) withDefaults() (Options, error) {
	if o.Component == "" {
		o.Component = "apiserver"
	}
	if o.Every < 0 {
		return o, invalid("option Every is %v, it must not be negative", o.Every)
	}
	if o.Every == 0 {
		o.Every = time.Second
	}
	for _, f := range []struct {
		name     string
		value    *int
		fallback int
	}{{"Writes", &o.Writes, 10}, {"Waiting", &o.Waiting, 1000}, {"Slots", &o.Slots, 64}, {"PerUser", &o.PerUser, 0}} {
		if *f.value < 0 {
			return o, invalid("option %s is %d, it must not be negative", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.fallback
		}
	}
	if o.PerUser == 0 {
		o.PerUser = max(1, o.Waiting/10)
	}
	return o, nil
}

func invalid(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrInvalid, Message: "refusals: " + fmt.Sprintf(format, args...)}
}

// Recorder gathers refusals and writes them down as events of type Warning and
// reason Forbidden: one for each user, verb and resource in a namespace, with a
// count. Resources that the registry does not declare, whose names anybody can make
// up, are one together. Make one with [New]. All methods are safe for concurrent use.
//
// Nothing of it holds up requests; memory, the rate of writes, and the number of
// events in a namespace are bounded. It writes to the registry, where nobody is
// asked for permission, so that it never records itself. Nothing is written into a
// namespace that is missing or terminating, and requests at the cluster scope are
// not recorded: there is no namespace whose owner they concern.
type Recorder struct {
	registry *registry.Registry
	events   *registry.Content
	declared map[namespace.ResourceType]bool
	o        Options

	mu      sync.Mutex
	waiting map[key]*tally
	users   map[string]int // how many of waiting are about a user
	order   []key          // of waiting, oldest first
	wake    chan struct{}  // holds a token when something waits
}

// key is what refusals are put together by.
type key struct{ user, verb, group, resource, subresource, namespace string }

// size bounds what a client can have the recorder keep.
func (k key) size() int {
	return len(k.user) + len(k.verb) + len(k.group) + len(k.resource) + len(k.subresource)
}

// tally is how often something was refused, and when.
type tally struct {
	refusal     apiserver.Refusal
	count       int32
	first, last time.Time
}

// New returns a recorder for the namespaces of r, in which the resource type
// "events" must be declared. Nil options are all defaults.
func New(r *registry.Registry, options *Options) (*Recorder, error) {
	if r == nil {
		return nil, invalid("the registry is nil")
	}
	var o Options
	if options != nil {
		o = *options
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	events, err := r.Content(namespace.ResourceType{Name: "events"})
	if err != nil {
		return nil, fmt.Errorf("refusals: %w", err)
	}
	declared := map[namespace.ResourceType]bool{{Name: namespace.Resource}: true}
	for _, t := range r.Types() {
		declared[t.Name()] = true
	}
	return &Recorder{
		registry: r, events: events, declared: declared, o: o,
		waiting: map[key]*tally{}, users: map[string]int{}, wake: make(chan struct{}, 1),
	}, nil
}

// Record takes note of a refusal, to be written by [Recorder.Run]. It never
// blocks. It is what [apiserver.Hooks.Refused] wants.
func (rec *Recorder) Record(refusal apiserver.Refusal) {
	if refusal.Attributes.Resource == "" || len(namespace.ValidateName(refusal.Attributes.Namespace)) > 0 {
		return
	}
	told := refusal
	a := rec.served(refusal.Attributes)
	refusal.Attributes = a
	now := time.Now()
	k := key{refusal.User.Name, a.Verb, a.Group, a.Resource, a.Subresource, a.Namespace}
	rec.mu.Lock()
	t := rec.waiting[k]
	full := t == nil && (len(rec.waiting) >= rec.o.Waiting || rec.users[k.user] >= rec.o.PerUser || k.size() > maxMessage)
	switch {
	case full:
	case t == nil:
		rec.users[k.user]++
		rec.waiting[k] = &tally{refusal: refusal, count: 1, first: now, last: now}
		rec.order = append(rec.order, k)
	default:
		t.count = max(t.count, t.count+1) // it does not overflow
		t.last = now
	}
	rec.mu.Unlock()
	if full {
		rec.drop(told, ErrDropped)
		return
	}
	select {
	case rec.wake <- struct{}{}:
	default:
	}
}

// served returns the attributes without what is of one request only, and without the
// names of what is not served.
func (rec *Recorder) served(a authorization.Attributes) authorization.Attributes {
	a.Name, a.Path = "", ""
	known := a.Subresource == "" || a.Subresource == "status" || a.Subresource == "finalize"
	if !known || !rec.declared[namespace.ResourceType{Group: a.Group, Name: a.Resource}] {
		a.Group, a.Resource, a.Subresource = "", "", ""
	}
	return a
}

// Run writes what was recorded until ctx ends, and returns the cause. What waits
// then is dropped. One Run at a time is enough.
func (rec *Recorder) Run(ctx context.Context) error {
	ticker := time.NewTicker(rec.o.Every)
	defer ticker.Stop()
	for {
		select {
		case <-rec.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for more := true; more; { // what comes meanwhile is put together
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			more = rec.flush(ctx)
		}
	}
}

// flush writes the oldest of what waits, and reports whether there is more.
func (rec *Recorder) flush(ctx context.Context) bool {
	for range rec.o.Writes {
		t := rec.next()
		if t == nil {
			return false
		}
		if err := rec.write(ctx, t); err != nil {
			rec.drop(t.refusal, err)
		}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return len(rec.order) > 0
}

func (rec *Recorder) next() *tally {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.order) == 0 {
		return nil
	}
	k := rec.order[0]
	if rec.order = rec.order[1:]; len(rec.order) == 0 {
		rec.order = nil
	}
	t := rec.waiting[k]
	delete(rec.waiting, k)
	if rec.users[k.user]--; rec.users[k.user] == 0 {
		delete(rec.users, k.user)
	}
	return t
}

func (rec *Recorder) drop(refusal apiserver.Refusal, err error) {
	if rec.o.Dropped != nil {
		rec.o.Dropped(refusal, err)
	}
}

// attempts is how often a write is tried when others write the same event.
const attempts = 4

// write adds t to the event that it belongs to.
func (rec *Recorder) write(ctx context.Context, t *tally) error {
	ns := t.refusal.Attributes.Namespace
	n, err := rec.registry.Get(ctx, ns)
	if errors.Is(err, namespace.ErrNotFound) || err == nil && n.Phase() != phase.Active {
		return nil
	}
	for range attempts {
		if err == nil {
			err = rec.try(ctx, ns, t)
		}
		switch {
		case errors.Is(err, namespace.ErrTerminating), errors.Is(err, namespace.ErrNotFound):
			return nil // it went meanwhile
		case errors.Is(err, namespace.ErrConflict), errors.Is(err, namespace.ErrExists):
			err = nil
		default:
			return err
		}
	}
	return fmt.Errorf("refusals: the event was written by others %d times in a row: %w", attempts, namespace.ErrConflict)
}

func (rec *Recorder) try(ctx context.Context, ns string, t *tally) error {
	e := eventOf(t, rec.o.Component)
	name := rec.slot(t.refusal.User.Name, e.Message)
	old, err := rec.events.Get(ctx, ns, name)
	if errors.Is(err, namespace.ErrNotFound) {
		o, err := e.object(name, "")
		if err != nil {
			return err
		}
		_, err = rec.events.Create(ctx, ns, o)
		return err
	}
	if err != nil {
		return err
	}
	e.add(old)
	o, err := e.object(name, old.ResourceVersion)
	if err != nil {
		return err
	}
	_, err = rec.events.Update(ctx, ns, o)
	return err
}

const slotPrefix = "refused-"

// slot is the name of the event for a message, the same in all processes and at all
// times, so that counts go on. Those of a user are next to each other.
func (rec *Recorder) slot(user, message string) string {
	slots := uint64(rec.o.Slots)
	return fmt.Sprintf(slotPrefix+"%d", (hashOf(user)%slots+hashOf(message)%max(1, slots/8))%slots)
}

func hashOf(text string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(text)) // never fails
	return hash.Sum64()
}
