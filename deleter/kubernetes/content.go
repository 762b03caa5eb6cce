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

// ownLimit is how many objects a page has when the caller leaves it open.
const ownLimit = 500

// content is the objects of one type, as an API server has them. It implements
// [deleter.Content], [deleter.CollectionDeleter] and [deleter.Notifier].
//
// No request names the incarnation that it means, so each relies on a read of the
// namespace (rule R8). For objects that are deleted one by one that is exact. A
// page is handed out only if the namespace was this incarnation, and terminating,
// both before the request and after the answer; a uid never comes back, so it was that
// all the time between, and everything listed belongs to it. Each object is then
// deleted under its own uid, however late the request arrives. A collection has no
// such fence: only a look just before.
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

// newContent returns the content of a type. Absent reports whether a discovery that
// begins now no longer finds a type; oneByOne rules out collections.
func newContent(t typeInfo, m metadata.Interface, in *incarnations, absent func(context.Context, namespace.ResourceType) (bool, error), oneByOne bool) deleter.Content {
	return &content{typeInfo: t, client: m.Resource(t.gvr), incarnations: in, absent: absent, oneByOne: oneByOne}
}

// strict reports whether objects are deleted one by one, so that what is listed must be
// known to belong to the target.
func (c *content) strict(target deleter.Target) bool {
	return c.oneByOne || !c.verbs.has(canDeleteCollection) || c.incarnations.refuses(target, c.resource())
}

// List implements [deleter.Content]. It reads consistently, not from a cache.
func (c *content) List(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := checkArguments(ctx, target); err != nil {
		return deleter.Page{}, err
	}
	if err := c.checkList(limit); err != nil {
		return deleter.Page{}, err
	}
	if err := c.incarnations.recent(ctx, target); err != nil {
		return deleter.Page{}, err
	}
	list, err := c.request(ctx, target, limit, next)
	if err != nil {
		page, gone, err := c.unlisted(ctx, target, next, err, c.incarnations.confirm)
		if gone {
			c.incarnations.vanish(target, c.resource())
		}
		return page, err
	}
	if len(list.Items) > 0 && c.strict(target) {
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
		return fmt.Errorf("%s can be deleted but not listed, so that nobody can see whether any are left: "+
			"leave the type out with Options.Except", c.resource())
	}
	return nil
}

// request asks for a page.
func (c *content) request(ctx context.Context, target deleter.Target, limit int, next string) (*metav1.PartialObjectMetadataList, error) {
	if limit == 0 {
		limit = ownLimit
	}
	list, err := c.client.Namespace(target.Namespace).List(ctx, metav1.ListOptions{Limit: int64(limit), Continue: next})
	if err == nil && list == nil {
		err = errNoAnswer
	}
	return list, explain(ctx, err)
}

// unlisted is what List answers when the server did not. Gone says that there is no such
// type; confirm is what tells whether the target is there.
func (c *content) unlisted(
	ctx context.Context, target deleter.Target, next string, err error, confirm func(context.Context, deleter.Target, time.Time) error,
) (page deleter.Page, gone bool, _ error) {
	switch {
	case next != "" && expired(err):
		return page, false, fmt.Errorf("%w: %w", deleter.ErrExpired, err)
	case next != "" && apierrors.IsBadRequest(err):
		return page, false, fmt.Errorf("%w page token: %w", deleter.ErrInvalid, err)
	case !missing(err):
		return page, false, err
	}
	// The namespace, the type, or what serves it is missing. Only a discovery that began
	// after the refusal can tell that it is the type.
	if late := confirm(ctx, target, time.Now()); errors.Is(late, deleter.ErrIncarnation) {
		return page, false, late
	}
	absent, failed := c.absent(ctx, c.resource())
	switch {
	case failed != nil:
		return page, false, fmt.Errorf("%w; whether the type still exists cannot be told: %w", err, failed)
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

// graceOf returns how long a graceful deletion should still take. Kubernetes sets the
// deletion timestamp to when it should be over, by its own clock; no difference
// between clocks makes it longer than the whole period.
func graceOf(m *metav1.ObjectMeta, now time.Time) time.Duration {
	if m.DeletionTimestamp == nil || m.DeletionGracePeriodSeconds == nil {
		return 0
	}
	seconds := min(max(*m.DeletionGracePeriodSeconds, 0), int64(maxGrace/time.Second))
	return min(max(m.DeletionTimestamp.Sub(now), 0), time.Duration(seconds)*time.Second)
}

// maxGrace bounds grace periods, which may be any number of seconds, to what a
// duration can hold.
const maxGrace = 100 * 365 * 24 * time.Hour

// Delete implements [deleter.Content]. Without a uid it first reads the object, to
// delete that very one.
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
		ctx, err := c.fenceUID(ctx, target)
		if err != nil {
			return err
		}
		return c.delete(ctx, target, name, uid)
	}
	if err := c.incarnations.recent(ctx, target); err != nil {
		return err
	}
	m, err := c.client.Namespace(target.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case missing(err):
		return nil
	case err != nil:
		return explain(ctx, err)
	case m == nil:
		return errNoAnswer
	}
	// As for a listing: what was read between two looks belongs to the target.
	if err := c.incarnations.confirm(ctx, target, time.Now()); err != nil {
		return err
	}
	return c.delete(ctx, target, name, string(m.UID))
}

// fenceUID is the fence of a deletion under a uid, and returns the context for it. A
// listing of objects that are deleted one by one had shown whose they are; all that is
// asked then is that the target was ever seen terminating.
func (c *content) fenceUID(ctx context.Context, target deleter.Target) (context.Context, error) {
	if c.strict(target) {
		return ctx, c.incarnations.confirm(ctx, target, time.Time{})
	}
	if err := c.incarnations.recent(ctx, target); err != nil {
		return nil, err
	}
	return c.incarnations.sending(ctx, target), nil
}

func (c *content) delete(ctx context.Context, target deleter.Target, name, uid string) error {
	options := background()
	if uid != "" {
		options.Preconditions = metav1.NewUIDPreconditions(uid)
	}
	err := c.client.Namespace(target.Namespace).Delete(ctx, name, options)
	switch {
	case errors.Is(err, deleter.ErrIncarnation):
		return err // a look's, where the request would be sent; it may wrap a 404
	case err == nil || missing(err):
		return nil
	case uid != "" && apierrors.IsConflict(err) && !pageOfWeb(err):
		return c.conflict(ctx, target, name, uid, err)
	}
	return explain(ctx, err)
}

// conflict tells what a conflict of a deletion under a uid was about. Servers have
// several texts for a uid that is another, so the object is read.
func (c *content) conflict(ctx context.Context, target deleter.Target, name, uid string, conflict error) error {
	m, err := c.client.Namespace(target.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case errors.Is(err, deleter.ErrIncarnation):
		return err // as for the deletion
	case missing(err):
		return nil
	case err == nil && m != nil && string(m.UID) != uid:
		return fmt.Errorf("%w: %w", deleter.ErrReplaced, conflict)
	}
	return explain(ctx, conflict)
}

// background makes the server remove dependents after their owners, as the stock
// controller asks: nothing then waits for a dependent in another namespace.
func background() metav1.DeleteOptions {
	policy := metav1.DeletePropagationBackground
	return metav1.DeleteOptions{PropagationPolicy: &policy}
}

// DeleteCollection implements [deleter.CollectionDeleter]. The server does not say how
// many it deleted. A 404 or 405 says that collections are not to be had here, which
// teaches nothing about another namespace: an aggregated server may answer so for one
// that it does not know (kubernetes/kubernetes PR 93790).
func (c *content) DeleteCollection(ctx context.Context, target deleter.Target) (int, bool, error) {
	if err := checkArguments(ctx, target); err != nil {
		return 0, false, err
	}
	if c.oneByOne || !c.verbs.has(canDeleteCollection) {
		return 0, false, fmt.Errorf("collections of %s: %w", c.resource(), deleter.ErrNotSupported)
	}
	if c.incarnations.refuses(target, c.resource()) {
		return 0, false, fmt.Errorf("collections of %s: %w", c.resource(), deleter.ErrNotSupportedHere)
	}
	if err := c.incarnations.recent(ctx, target); err != nil {
		return 0, false, err
	}
	err := c.client.Namespace(target.Namespace).DeleteCollection(c.incarnations.sending(ctx, target), background(), metav1.ListOptions{})
	switch {
	case err == nil:
		return -1, false, nil
	case errors.Is(err, deleter.ErrIncarnation):
		return 0, false, err // a look's, where the request would be sent; it may wrap a 404
	case unserved(err):
		c.incarnations.refuse(target, c.resource())
		return 0, false, fmt.Errorf("collections of %s: %w: %w", c.resource(), deleter.ErrNotSupportedHere, err)
	}
	return 0, false, explain(ctx, err)
}

func checkArguments(ctx context.Context, target deleter.Target) error {
	if ctx == nil {
		return fmt.Errorf("%w context: is nil", deleter.ErrInvalid)
	}
	if err := target.Validate(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// checkName refuses names that would lead a request to another path.
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

// maxName is far beyond the names of Kubernetes, which types may choose freely.
const maxName = 1024
