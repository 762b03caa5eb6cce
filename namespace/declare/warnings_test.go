package declare_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	const hold, grace = declare.HoldAnnotation, declare.GraceAnnotation
	const (
		later     = `{"until":"2026-05-07T07:08:09Z"}`
		onHold    = `namespaces "x" is not deleted yet: it is on hold until %s and stays writable until then; to restore it, remove the annotation nslifecycle.io/delete-after; to delete it now, %s`
		takeOff   = "remove nslifecycle.io/deletion-grace and DELETE it again"
		hasGrace  = `namespaces "x" has a grace: DELETE puts it on hold for 24h0m0s; until then it stays Active and its content can be created and changed`
		unknown   = `the annotation %q is unknown and has no effect; known are nslifecycle.io/delete-after, nslifecycle.io/deletion-grace, protection.nslifecycle.io/NAME and waiver.nslifecycle.io/NAME`
		protected = `namespaces "x" is no longer protected from deletion by `
	)
	for name, c := range map[string]struct {
		old, next []string
		want      []string
	}{
		"nothing":                 {},
		"others' annotations":     {nil, []string{"a", "b", "example.com/nslifecycle.io", "c", "notnslifecycle.io/delete-after", "d", "nslifecycle.io", "e"}, nil},
		"put on hold":             {nil, []string{hold, holdIs}, []string{fmt.Sprintf(onHold, "2026-05-06T07:08:09Z", "DELETE it")}},
		"brought forward":         {[]string{hold, later}, []string{hold, holdIs}, []string{fmt.Sprintf(onHold, "2026-05-06T07:08:09Z", "DELETE it")}},
		"put off":                 {[]string{hold, holdIs}, []string{hold, later}, []string{fmt.Sprintf(onHold, "2026-05-07T07:08:09Z", "DELETE it")}},
		"by a DELETE":             {[]string{grace, "24h"}, []string{grace, "24h", hold, holdIs}, []string{fmt.Sprintf(onHold, "2026-05-06T07:08:09Z", takeOff)}},
		"the same time":           {[]string{hold, holdIs}, []string{hold, `{"until":"2026-05-06T07:08:09Z","by":"ada"}`}, nil},
		"taken off hold":          {[]string{hold, holdIs}, nil, []string{`namespaces "x" is no longer on hold: it will not be deleted at 2026-05-06T07:08:09Z`}},
		"an unreadable hold":      {[]string{hold, "{"}, []string{}, nil},
		"a grace":                 {nil, []string{grace, "24h"}, []string{hasGrace}},
		"another grace":           {[]string{grace, "1h"}, []string{grace, "24h"}, []string{hasGrace}},
		"no grace":                {[]string{grace, "1h"}, []string{grace, "0s"}, nil},
		"protected":               {nil, []string{legal, legalIs}, nil},
		"protected no longer":     {[]string{legal, legalIs, backups, "{"}, nil, []string{protected + "backups, legal"}},
		"protected otherwise":     {[]string{legal, legalIs}, []string{legal, backupIs}, nil},
		"a slip in a name":        {nil, []string{"nslifecycle.io/deletion-grase", "1h"}, []string{fmt.Sprintf(unknown, "nslifecycle.io/deletion-grase")}},
		"a slip that was there":   {[]string{"nslifecycle.io/deletion-grase", "1h"}, []string{"nslifecycle.io/deletion-grase", "2h"}, nil},
		"a slip in a domain":      {nil, []string{"protektion.nslifecycle.io/x", "{"}, []string{fmt.Sprintf(unknown, "protektion.nslifecycle.io/x")}},
		"a slip in upper case":    {nil, []string{"Waver.NSLIFECYCLE.io/X", "{"}, []string{fmt.Sprintf(unknown, "Waver.NSLIFECYCLE.io/X")}},
		"a hold without its verb": {nil, []string{"nslifecycle.io/after", "1h"}, []string{fmt.Sprintf(unknown, "nslifecycle.io/after")}},
	} {
		old, next := named("x"), named("x")
		old.Annotations, next.Annotations = annotated(c.old...).Annotations, annotated(c.next...).Annotations
		require.Empty(t, cmp.Diff(c.want, declare.Warnings(old, next)), name)
		require.Empty(t, declare.Warnings(old, namespace.MarkDeleted(next, now)), name)
	}
}

// The number of warnings is limited.
func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	old, next := named("x"), named("x")
	old.Annotations, next.Annotations = map[string]string{}, map[string]string{}
	for i := range 3000 {
		old.Annotations[fmt.Sprintf("%sp%04d", declare.ProtectionPrefix, i)] = legalIs
		next.Annotations[fmt.Sprintf("nslifecycle.io/%s-%04d", strings.Repeat("x", 58), i)] = ""
	}
	warnings := declare.Warnings(old, next)
	require.Len(t, warnings, 11)
	require.Contains(t, warnings[0], "p0008, p0009 and 2990 more")
	require.Contains(t, warnings[10], "and 2990 more")
	require.Less(t, len(strings.Join(warnings, "")), 4000)
}
