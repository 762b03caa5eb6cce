package kubernetes

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

// watchAgainAfter is the least time between the beginnings of two watches, so that a
// server which ends each at once is not asked in a hot loop.
const watchAgainAfter = time.Second

// Wait implements [deleter.Notifier] by a watch. It deletes nothing, and wakes for an
// object of any incarnation; a look is due then at worst for nothing.
func (c *content) Wait(ctx context.Context, target deleter.Target, seen string) error {
	if err := checkArguments(ctx, target); err != nil {
		return err
	}
	if !c.verbs.has(canWatch) {
		return fmt.Errorf("watching %s: %w", c.resource(), deleter.ErrNotSupported)
	}
	if err := c.incarnations.recent(ctx, target); err != nil {
		return err
	}
	if seen == "" {
		at, err := c.versionNow(ctx, target)
		if err != nil || at == "" {
			return err
		}
		seen = at
	}
	for {
		began := time.Now()
		gone, last, err := c.watch(ctx, target, seen)
		if gone || err != nil {
			return err
		}
		seen = last
		if err := backoff.Sleep(ctx, watchAgainAfter-time.Since(began)); err != nil {
			return err
		}
	}
}

// versionNow returns the resource version to watch from; empty: there is nothing that
// could go, so that a look is due.
func (c *content) versionNow(ctx context.Context, target deleter.Target) (string, error) {
	list, err := c.client.Namespace(target.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case err != nil:
		return "", explain(ctx, err)
	case list == nil:
		return "", errNoAnswer
	case len(list.Items) == 0:
		return "", nil
	case list.ResourceVersion == "":
		return "", fmt.Errorf("watching %s, whose listings have no resource version: %w", c.resource(), deleter.ErrNotSupportedHere)
	}
	return list.ResourceVersion, nil
}

// watch makes one watch from a resource version. It reports whether something has
// gone, or may have; else, once the server ended the watch, where to go on.
func (c *content) watch(ctx context.Context, target deleter.Target, from string) (gone bool, last string, err error) {
	w, err := c.client.Namespace(target.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
	switch {
	case err == nil && w == nil:
		return false, "", errNoAnswer
	case expired(err):
		return true, "", nil
	case unserved(err):
		return false, "", fmt.Errorf("watching %s: %w: %w", c.resource(), deleter.ErrNotSupportedHere, err)
	case err != nil:
		return false, "", explain(ctx, err)
	}
	defer stopWatch(w)
	for {
		select {
		case <-ctx.Done():
			return false, "", context.Cause(ctx)
		case event, open := <-w.ResultChan():
			if !open {
				return false, from, context.Cause(ctx)
			}
			switch event.Type {
			case watch.Deleted:
				return true, "", nil
			case watch.Error:
				if err := apierrors.FromObject(event.Object); !expired(err) {
					return false, "", explain(ctx, err)
				}
				return true, "", nil
			}
			from = versionOf(event, from)
		}
	}
}

// versionOf returns the resource version of an event, or the former one.
func versionOf(event watch.Event, former string) string {
	if m, err := meta.Accessor(event.Object); err == nil && m.GetResourceVersion() != "" {
		return m.GetResourceVersion()
	}
	return former
}

// stopWatch ends a watch and what feeds it. The client's goroutine may be about to hand
// over an event, and ends only when that is taken.
func stopWatch(w watch.Interface) {
	w.Stop()
	for range w.ResultChan() {
	}
}
