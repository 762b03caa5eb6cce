package controllertest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// Host keeps namespaces in a map. It is the smallest complete implementation of
// [controller.Namespaces]: a fake for tests, and a model for hosts with a storage of their
// own. The zero Host is empty and ready for use. It is safe for concurrent use.
type Host struct {
	mu         sync.Mutex
	namespaces map[string]namespace.Namespace
	revision   int64         // of the last change
	log        []change      // since floor, oldest first
	floor      int64         // changes up to here were forgotten
	changed    chan struct{} // closed by the next change
}

type change struct {
	revision int64
	event    namespace.Event // the zero event: not for controllers
}

// Create adds an active namespace with the finalizer `kubernetes`. It returns
// [namespace.ErrExists] if the name is taken.
func (h *Host) Create(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return h.write(ctx, ns.Name, func(old *namespace.Namespace) (namespace.Namespace, error) {
		if old != nil {
			return namespace.Namespace{}, refusal(namespace.ErrExists, ns.Name)
		}
		created := namespace.PrepareCreate(ns, finalizer.Kubernetes, "uid-"+strconv.FormatInt(h.revision+1, 10), time.Now())
		return created, namespace.ValidateCreate(created)
	})
}

// Delete makes a namespace terminating, or removes it if it has no finalizers.
func (h *Host) Delete(ctx context.Context, name string) (namespace.Namespace, error) {
	return h.write(ctx, name, func(old *namespace.Namespace) (namespace.Namespace, error) {
		if old == nil {
			return namespace.Namespace{}, refusal(namespace.ErrNotFound, name)
		}
		return namespace.MarkDeleted(*old, time.Now()), nil
	})
}

// Get implements [pass.Namespaces].
func (h *Host) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	if err := over(ctx); err != nil {
		return namespace.Namespace{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ns, ok := h.namespaces[name]
	if !ok {
		return namespace.Namespace{}, refusal(namespace.ErrNotFound, name)
	}
	return ns.DeepCopy(), nil
}

// UpdateStatus implements [pass.Namespaces].
func (h *Host) UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return h.replace(ctx, ns, namespace.PrepareStatus, namespace.ValidateStatus)
}

// Finalize implements [pass.Namespaces].
func (h *Host) Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return h.replace(ctx, ns, namespace.PrepareFinalize, namespace.ValidateFinalize)
}

// Update replaces the metadata that a client may change.
func (h *Host) Update(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return h.replace(ctx, ns, namespace.PrepareUpdate, func(old, updated namespace.Namespace) error {
		return namespace.ValidateUpdate(old, updated)
	})
}

func (h *Host) replace(
	ctx context.Context, ns namespace.Namespace,
	prepare func(old, updated namespace.Namespace) namespace.Namespace,
	validate func(old, updated namespace.Namespace) error,
) (namespace.Namespace, error) {
	return h.write(ctx, ns.Name, func(old *namespace.Namespace) (namespace.Namespace, error) {
		switch {
		case old == nil:
			return namespace.Namespace{}, refusal(namespace.ErrNotFound, ns.Name)
		case old.UID != ns.UID, old.ResourceVersion != ns.ResourceVersion:
			return namespace.Namespace{}, refusal(namespace.ErrConflict, ns.Name)
		}
		updated := prepare(*old, ns)
		return updated, validate(*old, updated)
	})
}

// write replaces the namespace with the given name by the result of edit.
func (h *Host) write(
	ctx context.Context, name string, edit func(old *namespace.Namespace) (namespace.Namespace, error),
) (namespace.Namespace, error) {
	if err := over(ctx); err != nil {
		return namespace.Namespace{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var old *namespace.Namespace
	if ns, ok := h.namespaces[name]; ok {
		old = &ns
	}
	ns, err := edit(old)
	if err != nil {
		return namespace.Namespace{}, err
	}
	h.revision++
	ns.ResourceVersion = strconv.FormatInt(h.revision, 10)
	entry := change{revision: h.revision, event: namespace.Event{Name: ns.Name, UID: ns.UID, Token: ns.ResourceVersion}}
	switch {
	case namespace.Removable(ns):
		delete(h.namespaces, name)
		entry.event.Type = namespace.EventAbsent
	default:
		if h.namespaces == nil {
			h.namespaces = map[string]namespace.Namespace{}
		}
		h.namespaces[name] = ns
		if announced(old, ns) {
			entry.event.Type = namespace.EventPresent
		}
	}
	h.log = append(h.log, entry)
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
	return ns.DeepCopy(), nil
}

// announced reports whether controllers get an event for ns, which has replaced old.
func announced(old *namespace.Namespace, ns namespace.Namespace) bool {
	if ns.DeletionTimestamp.IsZero() {
		return false
	}
	added, _ := old.Spec.Finalizers.Diff(ns.Spec.Finalizers)
	return old.DeletionTimestamp.IsZero() || len(added) > 0
}

// Forget makes every token but the latest too old to resume from.
func (h *Host) Forget(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.floor, h.log = h.revision, nil
	return nil
}

// Len returns the number of namespaces.
func (h *Host) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.namespaces)
}

// Terminating implements [controller.Namespaces].
func (h *Host) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		if ctx == nil {
			yield(namespace.Event{}, over(ctx))
			return
		}
		synced := false
		cursor, err := strconv.ParseInt(after, 10, 64)
		if err != nil {
			err = refusal(namespace.ErrGone, "")
		}
		if after == "" {
			var events []namespace.Event
			events, cursor = h.list()
			err = nil
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
		for err == nil {
			var events []namespace.Event
			var more <-chan struct{}
			if events, cursor, more, err = h.since(cursor); err != nil {
				break
			}
			if !synced {
				synced = true
				events = append(events, namespace.Event{Type: namespace.EventSynced, Token: strconv.FormatInt(cursor, 10)})
			}
			for _, e := range events {
				if ctx.Err() != nil {
					break
				}
				if !yield(e, nil) {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		yield(namespace.Event{}, err)
	}
}

// list returns an event for each terminating namespace, and the revision of the listing.
func (h *Host) list() (events []namespace.Event, revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(h.namespaces)) {
		if ns := h.namespaces[name]; !ns.DeletionTimestamp.IsZero() {
			events = append(events, namespace.Event{Type: namespace.EventPresent, Name: name, UID: ns.UID})
		}
	}
	return events, h.revision
}

// since returns the events after cursor, the revision of the last one, and a channel that is
// closed when there are more.
func (h *Host) since(cursor int64) (events []namespace.Event, revision int64, more <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cursor < h.floor || cursor > h.revision {
		return nil, 0, nil, refusal(namespace.ErrGone, "")
	}
	for _, c := range h.log[cursor-h.floor:] {
		if c.event.Type != 0 {
			events = append(events, c.event)
		}
	}
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return events, h.revision, h.changed, nil
}

// over returns the cause of ctx's end, or nil if ctx has not ended.
func over(ctx context.Context) error {
	if ctx == nil {
		return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: namespace.Resource, Message: "the context is nil"}
	}
	return context.Cause(ctx)
}

func refusal(kind error, name string) error {
	return &namespace.Error{Kind: kind, Resource: namespace.Resource, Name: name, Message: namespace.Resource + " " + strconv.Quote(name) + ": " + kind.Error()}
}
