package kubernetes

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// Content returns the objects of one type as a source has them, for hosts that
// compose a deleter of their own: of a fixed set of types, or together with content
// that is not in the cluster. Verbs are what the server can do with the type, as
// discovery tells it; of these count "list", "delete", "deletecollection" and "watch".
//
// It is fenced and learns as the content of [Cluster.Deleter] does, but is never
// known to be final: the wait for a settled view (Options.Wait) is the deleter's, so
// a host that relies on it looks again itself.
//
// A type without a name or version, one that can be deleted in no way, and one that
// the options leave alone are refused with [deleter.ErrInvalid].
func (c *Cluster) Content(gvr schema.GroupVersionResource, verbs ...string) (deleter.Content, error) {
	t := typeInfo{gvr: gvr, verbs: verbsOf(verbs)}
	if err := t.resource().Validate(); err != nil {
		return nil, err
	}
	if err := (deleter.Resource{Name: gvr.Version}).Validate(); err != nil {
		return nil, fmt.Errorf("version of %s: %w", t.resource(), err)
	}
	if !t.verbs.has(canDelete) && !t.verbs.has(canDeleteCollection) {
		return nil, fmt.Errorf("%w verbs of %s: neither delete nor deletecollection is among %q", deleter.ErrInvalid, t.resource(), strings.Join(verbs, ", "))
	}
	if !c.deleter.catalog.scope.has(t.resource()) {
		return nil, fmt.Errorf("%w type %s: the options Only, Except or ExceptGroups leave it alone", deleter.ErrInvalid, t.resource())
	}
	return c.deleter.catalog.content(t), nil
}
