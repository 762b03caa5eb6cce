package deleter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/phase"
)

// R9: the conditions report the objects that a pass saw and did not see removed, also if the
// listing after the deletions fails.
func TestR9_ObjectsSeenBeforeAListingFailed(t *testing.T) {
	remain := func(n int) string {
		return fmt.Sprintf("Some resources are remaining: sick. has %d resource instances", n)
	}
	// failing holds twelve objects, of which finalizers hold some. The listings after the
	// first few fail, and so do operations and objects that are named.
	failing := func(listings int, held []int, sick ...any) *contenttest.Fake {
		var objects []contenttest.Object
		for i := range 12 {
			objects = append(objects, contenttest.Object{Name: fmt.Sprintf("x%02d", i)})
		}
		for _, i := range held {
			objects[i].Finalizers = []string{hold}
		}
		return fake(&contenttest.FakeOptions{PageSize: 5, Fault: func(_ context.Context, c contenttest.Call) error {
			if c.Op == list {
				if listings--; listings < 0 {
					return errBoom
				}
			}
			for _, one := range sick {
				if one == c.Op || one == c.Object {
					return errBoom
				}
			}
			return nil
		}}, objects...)
	}
	// A pass lists before it deletes a collection, if the previous pass failed.
	before := deleter.Report{UID: target().UID, Results: []deleter.Result{{Resource: core("sick"), Err: errBoom}}}
	for _, tt := range []struct {
		name    string
		content deleter.Content
		remain  string
		held    string
	}{
		{"two deletions fail", plain{failing(3, nil, "x03", "x07")}, remain(2), "No remaining finalizers were seen"},
		{"a finalizer holds one that is marked", plain{failing(3, []int{5}, "x03")}, remain(2), hold + " in 1 resource instances"},
		{"the first listing fails on its second page", plain{failing(1, nil, "x03")}, remain(1), "No remaining finalizers were seen"},
		{"the second listing fails on its second page", plain{failing(4, nil, del)}, remain(12), "No remaining finalizers were seen"},
		{"the second listing ends", plain{failing(4, []int{0, 1, 2}, "x11")}, remain(4), hold + " in 3 resource instances"},
		{"the listing before a collection fails", failing(0, nil), "No remaining resources were seen", "No remaining finalizers were seen"},
		{"a collection fails", failing(1, nil, collection), remain(12), "No remaining finalizers were seen"},
		{"a collection is deleted", failing(1, nil), "No remaining resources were seen", "No remaining finalizers were seen"},
		{"an answer contradicts itself", &oddEmptier{deleter.Result{Holders: []phase.Holder{{Finalizer: hold, Objects: 2}}}}, remain(2), hold + " in 2 resource instances"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := compose(t, nil, source("sick", tt.content))
			report, err := d.Delete(t.Context(), target(), before)
			require.Error(t, err)
			five := phase.Conditions(nil, report.Observation(), "", time.Now())
			message := func(i int) string { return five[i].Message[:min(len(five[i].Message), len(tt.remain))] }
			require.Empty(t, cmp.Diff(tt.remain, message(3)))
			require.Contains(t, five[4].Message, tt.held)
		})
	}
}
