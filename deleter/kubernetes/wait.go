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

// watchInterval is the minimum time between the starts of two watches, for servers that end
// watches at once.
const watchInterval = time.Second

// Wait implements [deleter.Notifier] with a watch. It may return for an object of another
// incarnation, which only causes an early pass.
func (c *content) Wait(ctx context.Context, target deleter.Target, seen string) error {
	if err := checkArguments(ctx, target); err != nil {
		return err
	}
	if !c.verbs.has(canWatch) {
		return fmt.Errorf("watching %s: %w", c.resource(), deleter.ErrNotSupported)
	}
	if err := c.incarnations.confirmRecent(ctx, target); err != nil {
		return err
	}
	if seen == "" {
		at, err := c.currentVersion(ctx, target)
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
		if err := backoff.Sleep(ctx, watchInterval-time.Since(began)); err != nil {
			return err
		}
	}
}

// currentVersion returns the resource version to watch from, or "" if no object exists.
func (c *content) currentVersion(ctx context.Context, target deleter.Target) (string, error) {
	list, err := c.client.Namespace(target.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case err != nil:
		return "", clientError(ctx, err)
	case len(list.Items) == 0:
		return "", nil
	case list.ResourceVersion == "":
		return "", fmt.Errorf("watching %s, whose listings have no resource version: %w", c.resource(), deleter.ErrNotSupportedHere)
	}
	return list.ResourceVersion, nil
}

// watch watches from a resource version. It reports whether an object is, or may be, gone. If the
// server ended the watch, last is the version to resume from.
func (c *content) watch(ctx context.Context, target deleter.Target, from string) (gone bool, last string, err error) {
	w, err := c.client.Namespace(target.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
	switch {
	case isExpired(err):
		return true, "", nil
	case isUnserved(err):
		return false, "", fmt.Errorf("watching %s: %w: %w", c.resource(), deleter.ErrNotSupportedHere, err)
	case err != nil:
		return false, "", clientError(ctx, err)
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
				if err := apierrors.FromObject(event.Object); !isExpired(err) {
					return false, "", clientError(ctx, err)
				}
				return true, "", nil
			}
			from = versionOf(event, from)
		}
	}
}

// versionOf returns the resource version of an event, or former if it has none.
func versionOf(event watch.Event, former string) string {
	if m, err := meta.Accessor(event.Object); err == nil && m.GetResourceVersion() != "" {
		return m.GetResourceVersion()
	}
	return former
}

// stopWatch stops a watch and drains it, since the client's goroutine may be blocked on an event.
func stopWatch(w watch.Interface) {
	w.Stop()
	for range w.ResultChan() {
	}
}
