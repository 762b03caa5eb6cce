package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

func TestDrops(t *testing.T) {
	record := func(id string, action audit.Action, follows string, objects, failures int) audit.Record {
		return audit.Record{ID: id, Action: action, Follows: follows, Objects: objects, Failures: failures}
	}
	records := []audit.Record{
		record("refused", audit.Forcing, "", 9, 0),
		record("a", audit.Forcing, "", 9, 0),
		record("r", audit.Refused, "refused", 0, 0),
		record("d", audit.Declared, "", 0, 0),
		record("b", audit.Forcing, "a", 3, 1), // resumes a
		record("c", audit.Forcing, "b", 9, 0), // would resume b, and is refused
		record("rc", audit.Refused, "c", 0, 0),
		record("swept", audit.Forcing, "", 9, 1),
		record("s1", audit.Swept, "swept", 5, 2),
		record("f1", audit.Forced, "swept", 0, 0),
		record("f2", audit.Forced, "forgotten", 0, 0),
		record("s2", audit.Swept, "swept", 2, 3),
		record("s3", audit.Swept, "unknown", 7, 7),
	}
	drops := audit.Drops(records)
	require.Equal(t, []audit.Drop{
		{Forcing: &records[4]},
		{Forcing: &records[7], Forced: &records[9], Swept: &records[11]},
		{Forced: &records[10]},
	}, drops)
	for i, want := range []struct {
		id, last            string
		objects, unanswered int
	}{{"b", "b", 3, 1}, {"swept", "f1", 2, 1}, {"forgotten", "f2", 1, 0}} {
		objects, unanswered := drops[i].Left()
		require.Equal(t, want.id, drops[i].ID())
		require.Equal(t, want.last, drops[i].Last().ID)
		require.Equal(t, []int{want.objects, want.unanswered}, []int{objects, unanswered}, want.id)
	}
}
