package controllertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// seen is an event without its token.
type seen struct {
	Type namespace.EventType
	Name string
	UID  string
}

// watch returns the events after a token, with their tokens, until enough returns true.
func watch(ctx context.Context, b Backend, after string, enough func([]namespace.Event) bool) ([]namespace.Event, error) {
	var events []namespace.Event
	for event, err := range b.Namespaces.(controller.Namespaces).Terminating(ctx, after) {
		if err != nil {
			return events, fmt.Errorf("watch after %q, having seen %+v: %w", after, events, err)
		}
		events = append(events, event)
		if enough(events) {
			return events, nil
		}
	}
	return events, fmt.Errorf("watch after %q ended without an error, having seen %+v", after, events)
}

func synced(events []namespace.Event) bool {
	return events[len(events)-1].Type == namespace.EventSynced
}

// until returns a function that reports whether the last event is the removal of name: the
// end of a script.
func until(name string) func([]namespace.Event) bool {
	return func(events []namespace.Event) bool {
		last := events[len(events)-1]
		return last.Type == namespace.EventAbsent && last.Name == name
	}
}

// changes returns the events that name a namespace, without their tokens.
func changes(events []namespace.Event) []seen {
	list := []seen{}
	for _, e := range events {
		if e.Type != namespace.EventSynced {
			list = append(list, seen{e.Type, e.Name, e.UID})
		}
	}
	return list
}

// script changes namespaces, and returns the events that a watch must yield after start.
func script(ctx context.Context, b Backend) (want []seen, err error) {
	step := func(name string, finalizers ...finalizer.Name) (namespace.Namespace, error) {
		ns, err := terminating(ctx, b, name, finalizers...)
		want = append(want, seen{namespace.EventPresent, name, ns.UID})
		return ns, err
	}
	remove := func(ns namespace.Namespace) error {
		_, err := b.Namespaces.Finalize(ctx, withFinalizers(ns, finalizer.Set{}))
		want = append(want, seen{namespace.EventAbsent, ns.Name, ns.UID})
		return err
	}
	first, err := step("first", own)
	if err != nil {
		return nil, err
	}
	if _, err := b.Create(ctx, named("active", own)); err != nil {
		return nil, err
	}
	second, err := step("second", own, other)
	if err != nil {
		return nil, err
	}
	if second, err = b.Namespaces.UpdateStatus(ctx, withCondition(second, "of no interest")); err != nil {
		return nil, err
	}
	if err := remove(first); err != nil {
		return nil, err
	}
	again, err := step("first", own) // another incarnation
	if err != nil {
		return nil, err
	}
	if err := remove(second); err != nil {
		return nil, err
	}
	if err := remove(again); err != nil {
		return nil, err
	}
	last, err := step("last", own)
	if err != nil {
		return nil, err
	}
	return want, remove(last)
}

// start returns the token of an empty listing.
func start(ctx context.Context, b Backend) (string, error) {
	events, err := watch(ctx, b, "", synced)
	if err != nil {
		return "", err
	}
	token := events[len(events)-1].Token
	if token == "" {
		return "", errors.New("expected the synced event to have a token, got none")
	}
	return token, nil
}

func watchLists(ctx context.Context, b Backend) error {
	if _, err := b.Create(ctx, named("active", own)); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	var want []seen
	for _, name := range []string{"a", "b", "c"} {
		ns, err := terminating(ctx, b, name, own)
		if err != nil {
			return err
		}
		want = append(want, seen{namespace.EventPresent, name, ns.UID})
	}
	gone, err := terminating(ctx, b, "gone", own)
	if err != nil {
		return err
	}
	if _, err := b.Namespaces.Finalize(ctx, withFinalizers(gone, finalizer.Set{})); err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	events, err := watch(ctx, b, "", synced)
	if err != nil {
		return err
	}
	last := events[len(events)-1]
	if last.Token == "" || last.Name != "" {
		return fmt.Errorf("expected a synced event with a token and no name, got %+v", last)
	}
	got := changes(events)
	slices.SortFunc(got, func(a, b seen) int { return strings.Compare(a.Name, b.Name) })
	return same("events before synced, by name", want, got)
}

func watchChanges(ctx context.Context, b Backend) error {
	var want []seen
	var failed error
	begun := false
	events, err := watch(ctx, b, "", func(events []namespace.Event) bool {
		if synced(events) && !begun {
			begun = true
			want, failed = script(ctx, b)
		}
		return failed != nil || until("last")(events)
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	return same("events", want, changes(events))
}

// watchFollowsListing deletes namespaces during concurrent listings, and expects each
// listing and the watch after it to report all of them together.
func watchFollowsListing(ctx context.Context, b Backend) error {
	const namespaces = 40
	var want []seen
	for i := range namespaces {
		ns, err := b.Create(ctx, named(fmt.Sprintf("ns-%03d", i), own))
		if err != nil {
			return fmt.Errorf("create: %w", err)
		}
		want = append(want, seen{namespace.EventPresent, ns.Name, ns.UID})
	}
	done := make(chan error, 1)
	go func() {
		for _, ns := range want {
			if err := b.Delete(ctx, ns.Name); err != nil {
				done <- fmt.Errorf("delete %s: %w", ns.Name, err)
				return
			}
		}
		_, err := terminating(ctx, b, "last", own)
		done <- err
	}()
	var listings [][]namespace.Event
	for deleting := true; deleting; {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			deleting = false
		default:
			events, err := watch(ctx, b, "", synced)
			if err != nil {
				return err
			}
			listings = append(listings, events)
		}
	}
	listings = listings[:min(len(listings), 100)]
	errs := make([]error, len(listings))
	var resumed sync.WaitGroup
	for i, listed := range listings {
		resumed.Go(func() {
			got, err := withRest(ctx, b, listed)
			if err == nil {
				err = same(fmt.Sprintf("listing %d and the events after it, by name", i), want, got)
			}
			errs[i] = err
		})
	}
	resumed.Wait()
	return cmp.Or(errs...)
}

// withRest returns the changes in the events of a listing and after it, up to the namespace
// "last" and without it, by name.
func withRest(ctx context.Context, b Backend, listed []namespace.Event) ([]seen, error) {
	got := changes(listed)
	isLast := func(s seen) bool { return s.Name == "last" }
	if !slices.ContainsFunc(got, isLast) {
		rest, err := watch(ctx, b, listed[len(listed)-1].Token, func(events []namespace.Event) bool {
			return events[len(events)-1].Name == "last"
		})
		if err != nil {
			return nil, err
		}
		got = append(got, changes(rest)...)
	}
	slices.SortFunc(got, func(a, b seen) int { return strings.Compare(a.Name, b.Name) })
	return slices.DeleteFunc(got, isLast), nil
}

func watchAhead(ctx context.Context, b Backend) error {
	if _, err := terminating(ctx, b, "a", own); err != nil {
		return err
	}
	token, err := b.Ahead(ctx)
	if err != nil {
		return fmt.Errorf("ahead: %w", err)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, 3*time.Second, errors.New("the watch waits"))
	defer cancel()
	_, err = watch(waiting, b, token, func([]namespace.Event) bool { return true })
	return expect("watch after a token of the future", err, namespace.ErrGone)
}

func watchAddedFinalizer(ctx context.Context, b Backend) error {
	ns, err := terminating(ctx, b, "a", own)
	if err != nil {
		return err
	}
	token, err := start(ctx, b)
	if err != nil {
		return err
	}
	if ns, err = b.Namespaces.Finalize(ctx, withFinalizers(ns, ns.Spec.Finalizers.With(other))); err != nil {
		return fmt.Errorf("finalize that adds: %w", err)
	}
	if _, err = b.Namespaces.Finalize(ctx, withFinalizers(ns, finalizer.Set{})); err != nil {
		return fmt.Errorf("finalize that removes: %w", err)
	}
	events, err := watch(ctx, b, token, until("a"))
	if err != nil {
		return err
	}
	want := []seen{{namespace.EventPresent, "a", ns.UID}, {namespace.EventAbsent, "a", ns.UID}}
	return same("events after a finalizer was added", want, changes(events))
}

func watchResumes(ctx context.Context, b Backend) error {
	token, err := start(ctx, b)
	if err != nil {
		return err
	}
	want, err := script(ctx, b)
	if err != nil {
		return err
	}
	events, err := watch(ctx, b, token, until("last"))
	if err != nil {
		return err
	}
	if err := same("events after the listing", want, changes(events)); err != nil {
		return err
	}
	for i, event := range events[:len(events)-1] {
		if event.Token == "" {
			continue // an event without a token cannot be resumed from
		}
		rest, err := watch(ctx, b, event.Token, until("last"))
		if err != nil {
			return err
		}
		if err := same(fmt.Sprintf("events after event %d, %+v", i, event), changes(events[i+1:]), changes(rest)); err != nil {
			return err
		}
	}
	end := events[len(events)-1].Token
	if end == "" {
		return errors.New("expected the event of a change to have a token, got none")
	}
	rest, err := watch(ctx, b, end, synced)
	if err != nil {
		return err
	}
	return same("events after the last, before synced", []seen{}, changes(rest))
}

func watchGone(ctx context.Context, b Backend) error {
	token, err := start(ctx, b)
	if err != nil {
		return err
	}
	if _, err := script(ctx, b); err != nil {
		return err
	}
	if err := b.Forget(ctx); err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	_, err = watch(ctx, b, token, func([]namespace.Event) bool { return false })
	if err := expect("watch after a token that was forgotten", err, namespace.ErrGone); err != nil {
		return err
	}
	_, err = start(ctx, b)
	return err
}

func watchEnds(ctx context.Context, b Backend) error {
	stop := errors.New("stopped by the case")
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, err := watch(watched, b, "", func(events []namespace.Event) bool {
		if synced(events) {
			cancel(stop)
		}
		return false
	})
	return expect("a watch whose context ended", err, stop)
}

func watchBreaks(ctx context.Context, b Backend) error {
	if _, err := terminating(ctx, b, "a", own); err != nil {
		return err
	}
	if _, err := terminating(ctx, b, "b", own); err != nil {
		return err
	}
	for range b.Namespaces.(controller.Namespaces).Terminating(ctx, "") {
		break // within the listing
	}
	token, err := start(ctx, b) // breaks at its end
	if err != nil {
		return err
	}
	_, err = watch(ctx, b, token, synced)
	return err
}
