package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// defaultLimit is the page size if the caller sets none.
const defaultLimit = 500

// content is the objects of one type on an API server. It implements [deleter.Content],
// [deleter.CollectionDeleter], [deleter.Notifier] and [deleter.Viewer].
//
// Requests name a namespace but not its incarnation, so each relies on a read of the namespace
// (rule R8). For objects that are deleted one by one this is exact: List returns a page only if
// the namespace was this incarnation, and terminating, both before the request and after the
// response. A uid is never reused, so it was this incarnation all the time between, and all listed
// objects belong to it. Each object is then deleted by its own uid, however late the request
// arrives. A collection is only protected by a read just before the request.
type content struct {
	typeInfo
	client       metadata.Getter
	incarnations *incarnations
	absent       func(ctx context.Context, r namespace.ResourceType) (bool, error)
	oneByOne     bool
}

var (
	_ deleter.CollectionDeleter = (*content)(nil)
	_ deleter.Notifier          = (*content)(nil)
	_ deleter.Viewer            = (*content)(nil)
)

// newContent returns the content of a type. absent reports whether a new discovery no longer finds
// a type; oneByOne disables collections.
func newContent(t typeInfo, m metadata.Interface, in *incarnations, absent func(context.Context, namespace.ResourceType) (bool, error), oneByOne bool) deleter.Content {
	return &content{typeInfo: t, client: m.Resource(t.gvr), incarnations: in, absent: absent, oneByOne: oneByOne}
}

// exact reports whether objects are deleted one by one, so that List must confirm that they belong
// to the target.
func (c *content) exact(target deleter.Target) bool {
	return c.oneByOne || !c.verbs.has(canDeleteCollection) || c.incarnations.refusesCollections(target, c.resource())
}

// List implements [deleter.Content]. It reads consistently, not from a cache.
func (c *content) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := checkArguments(ctx, target); err != nil {
		return deleter.Page{}, err
	}
	if err := c.checkList(limit); err != nil {
		return deleter.Page{}, err
	}
	if err := c.incarnations.confirmRecent(ctx, target); err != nil {
		return deleter.Page{}, err
	}
	list, err := c.requestPage(ctx, target, limit, next)
	if err != nil {
		page, gone, err := c.listFailed(ctx, target, next, err, c.incarnations.confirm)
		if gone {
			c.incarnations.recordMissingType(target, c.resource())
		}
		return page, err
	}
	if len(list.Items) > 0 && c.exact(target) {
		if err := c.incarnations.confirm(ctx, target, time.Now()); err != nil {
			return deleter.Page{}, err
		}
	}
	return pageOf(list), nil
}

func (c *content) checkList(limit int) error {
	if limit < 0 {
		return fmt.Errorf("%w limit %d: must not be negative", deleter.ErrInvalid, limit)
	}
	if !c.verbs.has(canList) {
		return fmt.Errorf("%s can be deleted but not listed, so remaining objects cannot be detected: "+
			"exclude the type with Options.Except", c.resource())
	}
	return nil
}

func (c *content) requestPage(ctx context.Context, target deleter.Target, limit int, next string) (*metav1.PartialObjectMetadataList, error) {
	if limit == 0 {
		limit = defaultLimit
	}
	list, err := c.client.Namespace(target.Namespace).List(ctx, metav1.ListOptions{Limit: int64(limit), Continue: next})
	return list, clientError(ctx, err)
}

// listFailed returns the result of a List whose request failed. gone reports that the type does
// not exist. confirm checks whether the target still exists.
func (c *content) listFailed(
	ctx context.Context, target deleter.Target, next string, err error, confirm func(context.Context, deleter.Target, time.Time) error,
) (page deleter.Page, gone bool, _ error) {
	switch {
	case next != "" && isExpired(err):
		return page, false, fmt.Errorf("%w: %w", deleter.ErrExpired, err)
	case next != "" && apierrors.IsBadRequest(err):
		return page, false, fmt.Errorf("%w page token: %w", deleter.ErrInvalid, err)
	case !isMissing(err):
		return page, false, err
	}
	// The namespace, the type, or its server may be missing. It is the type only if a discovery
	// that began after the 404 says so.
	if late := confirm(ctx, target, time.Now()); errors.Is(late, deleter.ErrIncarnation) {
		return page, false, late
	}
	absent, failed := c.absent(ctx, c.resource())
	switch {
	case failed != nil:
		return page, false, fmt.Errorf("%w; cannot determine whether the type still exists: %w", err, failed)
	case absent:
		return page, true, nil
	}
	return page, false, err
}

func pageOf(list *metav1.PartialObjectMetadataList) deleter.Page {
	page := deleter.Page{Next: list.Continue, Seen: list.ResourceVersion}
	if n := list.RemainingItemCount; n != nil && *n > 0 {
		page.Remaining = int(*n)
	}
	now := time.Now()
	for i := range list.Items {
		page.Items = append(page.Items, itemOf(&list.Items[i].ObjectMeta, now))
	}
	return page
}

func itemOf(m *metav1.ObjectMeta, now time.Time) deleter.Item {
	return deleter.Item{
		Name:       m.Name,
		UID:        string(m.UID),
		Deleting:   m.DeletionTimestamp != nil,
		Finalizers: m.Finalizers,
		Grace:      graceOf(m, now),
	}
}

// graceOf returns the remaining time of a graceful deletion. The server sets deletionTimestamp to
// the expected end, by its own clock. The result never exceeds the grace period, whatever the
// difference of clocks.
func graceOf(m *metav1.ObjectMeta, now time.Time) time.Duration {
	if m.DeletionTimestamp == nil || m.DeletionGracePeriodSeconds == nil {
		return 0
	}
	seconds := min(max(*m.DeletionGracePeriodSeconds, 0), int64(maxGrace/time.Second))
	return min(max(m.DeletionTimestamp.Sub(now), 0), time.Duration(seconds)*time.Second)
}

// maxGrace limits grace periods to values that fit a Duration.
const maxGrace = 100 * 365 * 24 * time.Hour

// View implements [deleter.Viewer]. It returns a page only if the namespace was this incarnation
// both before the request and after the response, in any phase. A uid is never reused, so all
// listed objects belong to it (rule R8).
func (c *content) View(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := checkView(ctx, target); err != nil {
		return deleter.Page{}, err
	}
	if err := c.checkList(limit); err != nil {
		return deleter.Page{}, err
	}
	if err := c.incarnations.confirmExists(ctx, target, time.Time{}); err != nil { // at any time
		return deleter.Page{}, err
	}
	list, err := c.requestPage(ctx, target, limit, next)
	if err != nil {
		page, _, err := c.listFailed(ctx, target, next, err, c.incarnations.confirmExists)
		return page, err
	}
	if err := c.incarnations.confirmExists(ctx, target, time.Now()); err != nil {
		return deleter.Page{}, err
	}
	return pageOf(list), nil
}

// Delete implements [deleter.Content]. Without a uid it reads the object first, and deletes it by
// its uid.
func (c *content) Delete(ctx context.Context, target deleter.Target, name, uid string) error {
	if err := checkArguments(ctx, target); err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	if !c.verbs.has(canDelete) {
		return fmt.Errorf("%s can only be deleted as a collection: %w", c.resource(), deleter.ErrNotSupported)
	}
	if uid != "" {
		ctx, err := c.fenceDelete(ctx, target)
		if err != nil {
			return err
		}
		return c.delete(ctx, target, name, uid)
	}
	if err := c.incarnations.confirmRecent(ctx, target); err != nil {
		return err
	}
	m, err := c.client.Namespace(target.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case isMissing(err):
		return nil
	case err != nil:
		return clientError(ctx, err)
	}
	// As in List, an object read between two confirmations belongs to the target.
	if err := c.incarnations.confirm(ctx, target, time.Now()); err != nil {
		return err
	}
	return c.delete(ctx, target, name, string(m.UID))
}

// fenceDelete checks the target before a deletion by uid and returns the context for the request.
// If objects are deleted one by one, List has confirmed that they belong to the target, so any
// earlier read of the target suffices.
func (c *content) fenceDelete(ctx context.Context, target deleter.Target) (context.Context, error) {
	if c.exact(target) {
		return ctx, c.incarnations.confirm(ctx, target, time.Time{})
	}
	if err := c.incarnations.confirmRecent(ctx, target); err != nil {
		return nil, err
	}
	return c.incarnations.withRecheck(ctx, target), nil
}

func (c *content) delete(ctx context.Context, target deleter.Target, name, uid string) error {
	options := deleteOptions()
	if uid != "" {
		options.Preconditions = metav1.NewUIDPreconditions(uid)
	}
	err := c.client.Namespace(target.Namespace).Delete(ctx, name, options)
	switch {
	case errors.Is(err, deleter.ErrIncarnation):
		return err // of a recheck when the request was sent; it may wrap a 404
	case err == nil || isMissing(err):
		return nil
	case uid != "" && apierrors.IsConflict(err) && !isWebPage(err):
		return c.classifyConflict(ctx, target, name, uid, err)
	}
	return clientError(ctx, err)
}

// classifyConflict determines the cause of a conflict in a deletion by uid. Servers report another
// uid in different texts, so it reads the object.
func (c *content) classifyConflict(ctx context.Context, target deleter.Target, name, uid string, conflict error) error {
	m, err := c.client.Namespace(target.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case errors.Is(err, deleter.ErrIncarnation):
		return err
	case isMissing(err):
		return nil
	case err == nil && string(m.UID) != uid:
		return fmt.Errorf("%w: %w", deleter.ErrReplaced, conflict)
	}
	return clientError(ctx, conflict)
}

// deleteOptions requests background deletion of dependents, as the stock controller does, so that
// no object waits for a dependent in another namespace.
func deleteOptions() metav1.DeleteOptions {
	policy := metav1.DeletePropagationBackground
	return metav1.DeleteOptions{PropagationPolicy: &policy}
}

// DeleteCollection implements [deleter.CollectionDeleter]. The server does not report how many
// objects it deletes. After a 404 or 405 this incarnation is emptied one by one. The response says
// nothing about other namespaces: an aggregated server may answer so for a namespace that it does
// not know (kubernetes/kubernetes PR 93790).
func (c *content) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	if err := checkArguments(ctx, target); err != nil {
		return 0, false, err
	}
	if c.oneByOne || !c.verbs.has(canDeleteCollection) {
		return 0, false, fmt.Errorf("collections of %s: %w", c.resource(), deleter.ErrNotSupported)
	}
	if c.incarnations.refusesCollections(target, c.resource()) {
		return 0, false, fmt.Errorf("collections of %s: %w", c.resource(), deleter.ErrNotSupportedHere)
	}
	if err := c.incarnations.confirmRecent(ctx, target); err != nil {
		return 0, false, err
	}
	err := c.client.Namespace(target.Namespace).DeleteCollection(c.incarnations.withRecheck(ctx, target), deleteOptions(), metav1.ListOptions{})
	switch {
	case err == nil:
		return -1, false, nil
	case errors.Is(err, deleter.ErrIncarnation):
		return 0, false, err // of a recheck when the request was sent; it may wrap a 404
	case isUnserved(err):
		c.incarnations.refuseCollections(target, c.resource())
		return 0, false, fmt.Errorf("collections of %s: %w: %w", c.resource(), deleter.ErrNotSupportedHere, err)
	}
	return 0, false, clientError(ctx, err)
}

func checkArguments(ctx context.Context, target deleter.Target) error {
	if err := target.Validate(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// checkName rejects names that would change the path of a request.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w object name: must not be empty", deleter.ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("%w object name: must be no more than %d bytes, has %d", deleter.ErrInvalid, maxName, len(name))
	case name == "." || name == ".." || strings.ContainsAny(name, "/%"):
		return fmt.Errorf("%w object name %q: must not be a path, or contain slashes or percent signs", deleter.ErrInvalid, name)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%w object name %q: must be valid UTF-8 without control characters", deleter.ErrInvalid, name)
	}
	return nil
}

// maxName exceeds all limits of Kubernetes types.
const maxName = 1024
