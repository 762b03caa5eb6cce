package apiserver

import (
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// onHold returns the warning that a namespace whose deletion was asked for is on hold
// instead: that is no error, but clients say that it is deleted, or wait for it.
func onHold(m namespace.Meta) []string {
	hold, held, err := namespace.HoldOf(m)
	if !held || err != nil || !m.DeletionTimestamp.IsZero() {
		return nil
	}
	return []string{fmt.Sprintf("%s %q is not deleted yet: it is on hold until %s; take off the annotation %s to restore it",
		namespace.Resource, m.Name, hold.Until.Format(time.RFC3339), namespace.HoldAnnotation)}
}
