// Package refusals records refused requests in a namespace as events there (objects of type
// "events", design proposal of Kubernetes, "Authorization"), for the owner of the namespace:
//
//	recorder, err := refusals.New(r, nil)
//	server, err := apiserver.New(r, kinds, &apiserver.Options{Hooks: apiserver.Hooks{Refused: recorder.Record}, ...})
//	go recorder.Run(ctx)
//
// Each namespace has a bounded number of such events ([Options.Slots]). A quota on events
// counts them unless its rule has [Options.Reserves] as Uncounted:
//
//	counted, err := quota.New(quota.Rule{Resource: namespace.ResourceType{Name: "events"}, Uncounted: refusals.Options{}.Reserves})
package refusals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// ErrDropped reports that a refusal was not recorded because too many were waiting.
var ErrDropped = errors.New("too many refusals are waiting to be recorded")

// Options configure a [Recorder]. Zero fields take the defaults.
type Options struct {
	// Component is the source of the events; default "apiserver".
	Component string
	// Every is the interval of writes; default 1 s. Equal refusals within it are written once.
	Every time.Duration
	// Writes bounds the events that are written in each interval; default 10.
	Writes int
	// Waiting bounds the different refusals that wait to be written; default 1,000. Further
	// ones are dropped.
	Waiting int
	// PerUser bounds the waiting refusals of one user; default a tenth of Waiting, at least 1.
	PerUser int
	// Slots bounds the recorder's events in a namespace; default 64. Further events replace
	// others. Events about one user use an eighth of the slots, at least one, so that no user
	// can replace the events about all others.
	Slots int
	// Dropped is called for each refusal that is not recorded, with the reason. It is not
	// called if the namespace is missing or terminating. May be nil.
	Dropped func(apiserver.Refusal, error)
}

// Reserves reports whether an event has the name of one of the Slots. Use it as
// quota.Rule.Uncounted, so that refusals do not use up the quota of the tenant.
func (o Options) Reserves(event registry.Object) bool {
	number, ok := strings.CutPrefix(event.Name, slotPrefix)
	slot, err := strconv.Atoi(number)
	return ok && err == nil && slot >= 0 && slot < o.withDefaults().Slots && strconv.Itoa(slot) == number
}

func (o Options) withDefaults() Options {
	o.Component = cmp.Or(o.Component, "apiserver")
	o.Every = cmp.Or(o.Every, time.Second)
	o.Writes = cmp.Or(o.Writes, 10)
	o.Waiting = cmp.Or(o.Waiting, 1000)
	o.PerUser = cmp.Or(o.PerUser, max(1, o.Waiting/10))
	o.Slots = cmp.Or(o.Slots, 64)
	return o
}

func (o Options) validate() error {
	if o.Every < 0 {
		return fmt.Errorf("refusals: Options.Every is %v: it must not be negative", o.Every)
	}
	for name, value := range map[string]int{"Writes": o.Writes, "Waiting": o.Waiting, "PerUser": o.PerUser, "Slots": o.Slots} {
		if value < 0 {
			return fmt.Errorf("refusals: Options.%s is %d: it must not be negative", name, value)
		}
	}
	return nil
}

// Recorder writes refusals as events of type Warning and reason Forbidden: one for each user,
// verb and resource in a namespace, with a count. Resources that the registry does not declare
// share an event, since clients can invent their names. Use [New] to create a Recorder. All
// methods are safe for concurrent use.
//
// A Recorder does not delay requests, and its memory, its rate of writes and the number of its
// events are bounded. It writes to the registry without authorization, so it never records
// itself. It ignores requests at the cluster scope.
type Recorder struct {
	registry *registry.Registry
	events   *registry.Content
	declared map[namespace.ResourceType]bool
	o        Options

	mu      sync.Mutex
	waiting map[key]*tally
	users   map[string]int // waiting refusals of each user
	order   []key          // of waiting, oldest first
}

// key identifies equal refusals.
type key struct{ user, verb, group, resource, subresource, namespace string }

// size returns the number of bytes that the client chose.
func (k key) size() int {
	return len(k.user) + len(k.verb) + len(k.group) + len(k.resource) + len(k.subresource)
}

// tally counts equal refusals.
type tally struct {
	refusal     apiserver.Refusal
	count       int32
	first, last time.Time
}

// New returns a recorder for the namespaces of r, which must declare the resource type
// "events". Nil options are the defaults.
func New(r *registry.Registry, options *Options) (*Recorder, error) {
	if options == nil {
		options = &Options{}
	}
	o := options.withDefaults()
	if err := o.validate(); err != nil {
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
		waiting: map[key]*tally{}, users: map[string]int{},
	}, nil
}

// Record enqueues a refusal for [Recorder.Run]. It does not block. Use it as
// [apiserver.Hooks.Refused].
func (rec *Recorder) Record(refusal apiserver.Refusal) {
	if refusal.Attributes.Resource == "" || len(namespace.ValidateName(refusal.Attributes.Namespace)) > 0 {
		return
	}
	original := refusal
	a := rec.common(refusal.Attributes)
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
		t.count = max(t.count, t.count+1) // without overflow
		t.last = now
	}
	rec.mu.Unlock()
	if full {
		rec.drop(original, ErrDropped)
	}
}

// common returns the attributes that equal refusals share: without the name and the path, and
// without the names of an undeclared resource.
func (rec *Recorder) common(a authorization.Attributes) authorization.Attributes {
	a.Name, a.Path = "", ""
	known := a.Subresource == "" || a.Subresource == "status" || a.Subresource == "finalize"
	if !known || !rec.declared[namespace.ResourceType{Group: a.Group, Name: a.Resource}] {
		a.Group, a.Resource, a.Subresource = "", "", ""
	}
	return a
}

// Run writes recorded refusals until ctx ends, and returns its cause. It drops refusals that
// are still waiting then. Call it once.
func (rec *Recorder) Run(ctx context.Context) error {
	ticker := time.NewTicker(rec.o.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			rec.flush(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// flush writes the oldest refusals.
func (rec *Recorder) flush(ctx context.Context) {
	for range rec.o.Writes {
		t := rec.next()
		if t == nil {
			return
		}
		if err := rec.write(ctx, t); err != nil {
			rec.drop(t.refusal, err)
		}
	}
}

// next removes and returns the oldest refusal, or nil.
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

// attempts bounds the writes of an event that others write at the same time.
const attempts = 4

// write adds t to its event.
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
			return nil // the namespace was deleted in the meantime
		case errors.Is(err, namespace.ErrConflict), errors.Is(err, namespace.ErrExists):
			err = nil
		default:
			return err
		}
	}
	return fmt.Errorf("refusals: the event was written by others %d times in a row: %w", attempts, namespace.ErrConflict)
}

func (rec *Recorder) try(ctx context.Context, ns string, t *tally) error {
	event := rec.eventOf(t)
	name := rec.slot(t.refusal.User.Name, event.Message)
	old, err := rec.events.Get(ctx, ns, name)
	write := rec.events.Update
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		write = rec.events.Create
	case err != nil:
		return err
	default:
		add(event, old)
	}
	document, err := json.Marshal(event)
	if err != nil {
		return err
	}
	o := registry.Object{Meta: namespace.Meta{Name: name, ResourceVersion: old.ResourceVersion}}
	if err := json.Unmarshal(document, &o.Fields); err != nil {
		return err
	}
	delete(o.Fields, "metadata")
	_, err = write(ctx, ns, o)
	return err
}

// maxMessage is the size of the message of an event in Kubernetes, in bytes.
const maxMessage = 1024

func (rec *Recorder) eventOf(t *tally) *corev1.Event {
	a := t.refusal.Attributes
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	object := fmt.Sprintf("resource %q in API group %q", resource, a.Group)
	if resource == "" {
		object = "resources that are not served"
	}
	return &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: namespace.Kind, APIVersion: namespace.APIVersion, Name: a.Namespace, Namespace: a.Namespace},
		Type:           corev1.EventTypeWarning, Reason: "Forbidden",
		Message: phase.Truncate(fmt.Sprintf("User %q cannot %s %s in the namespace %q", t.refusal.User.Name, a.Verb, object, a.Namespace), maxMessage),
		Source:  corev1.EventSource{Component: rec.o.Component}, ReportingController: rec.o.Component,
		FirstTimestamp: metav1.NewTime(t.first), LastTimestamp: metav1.NewTime(t.last), Count: t.count,
	}
}

// add adds the count of an earlier event with the same message.
func add(event *corev1.Event, earlier registry.Object) {
	document, err := json.Marshal(earlier.Fields)
	var old corev1.Event
	if err != nil || json.Unmarshal(document, &old) != nil || old.Message != event.Message || old.Count < 0 || old.FirstTimestamp.IsZero() {
		return
	}
	event.Count = int32(min(int64(old.Count)+int64(event.Count), math.MaxInt32))
	event.FirstTimestamp = old.FirstTimestamp
}

const slotPrefix = "refused-"

// slot returns the name of the event for a message. It is the same in all processes and at all
// times, so that the count continues. The slots of a user are adjacent.
func (rec *Recorder) slot(user, message string) string {
	slots := uint64(rec.o.Slots)
	return fmt.Sprintf(slotPrefix+"%d", (hashOf(user)%slots+hashOf(message)%max(1, slots/8))%slots)
}

func hashOf(text string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(text)) // never fails
	return hash.Sum64()
}
