package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store"
)

func TestOperationFitsTheRoom(t *testing.T) {
	l := newLog(t, newStore(t, nil))
	long := strings.Repeat("é", 5000)
	r := audit.Record{Action: audit.Declared, Namespace: "a", UID: "u", Objects: 7, Changes: []audit.Change{{Key: "k", Old: long, New: "short"}}}
	whole, op, err := l.Operation(r, 0)
	require.NoError(t, err)
	require.Zero(t, whole.Objects, "the log sets the counts")
	require.Equal(t, strings.Repeat("é", 2048)+"... (10000 bytes)", whole.Changes[0].Old, "values are cut to 4 KiB in any case")
	require.Equal(t, "/registry/.audit/a/"+whole.ID, op.Key)
	for _, room := range []int{5000, 2000, 1000, 400} {
		short, op, err := l.Operation(r, room)
		require.NoError(t, err)
		require.LessOrEqual(t, len(op.Key)+len(op.Value), room)
		require.Equal(t, "short", short.Changes[0].New)
		require.Contains(t, short.Changes[0].Old, "... (10000 bytes)")
	}
	_, _, err = l.Operation(r, 100)
	require.ErrorIs(t, err, namespace.ErrInvalid)
	require.ErrorIs(t, err, store.ErrTooLarge)
	require.Equal(t, long, r.Changes[0].Old, "the argument is not changed")
}

// The record of many changes is small, so no change is refused because of its record.
func TestOperationOmitsChanges(t *testing.T) {
	l := newLog(t, newStore(t, nil))
	r := audit.Record{Action: audit.Declared, Namespace: "a", UID: "u"}
	for i := range 4000 {
		r.Changes = append(r.Changes, audit.Change{Key: fmt.Sprintf("waiver.nslifecycle.io/w%d", i), Old: strings.Repeat("o", 64), New: strings.Repeat("n", 64)})
	}
	short, op, err := l.Operation(r, 10<<20)
	require.NoError(t, err)
	require.LessOrEqual(t, len(op.Key)+len(op.Value), audit.MaxChanges)
	require.Less(t, len(short.Changes), 4000)
	require.Greater(t, len(short.Changes), 100)
	require.Equal(t, fmt.Sprintf("%d more changes are omitted, because the store limits the size of this record", 4000-len(short.Changes)), short.Detail)
	require.Len(t, r.Changes, 4000)
}
