package patch_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
)

// Server-side apply leaves the numbers of custom objects as they were written, though
// the libraries beneath round them.
func TestApplyKeepsNumbers(t *testing.T) {
	p := newPatcher(t)
	const (
		huge, next = `12345678901234567890`, `12345678901234567891` // one float64
		fine       = `0.1000000000000000055511151231257827`
	)
	for _, test := range []struct{ name, live, applied, want, refused string }{
		{"untouched", `{"huge":` + huge + `,"fine":` + fine + `,"f":1.50}`, `{"x":1}`, `{"huge":` + huge + `,"fine":` + fine + `,"f":1.50,"x":1}`, ""},
		{"untouched beside", `{"a":{"huge":` + huge + `},"b":1}`, `{"b":1,"a":{"c":2}}`, `{"a":{"huge":` + huge + `,"c":2},"b":1}`, ""},
		{"new", `{"n":1}`, `{"huge":` + huge + `,"list":[` + fine + `]}`, `{"n":1,"huge":` + huge + `,"list":[` + fine + `]}`, ""},
		{"the same", `{"huge":` + huge + `}`, `{"huge":` + huge + `,"x":1}`, `{"huge":` + huge + `,"x":1}`, ""},
		{"an untouched list", `{"l":[` + huge + `,` + next + `]}`, `{"x":1}`, `{"l":[` + huge + `,` + next + `],"x":1}`, ""},
		{"two that are alike", `{"a":` + huge + `,"b":` + next + `}`, `{"x":1}`, `{"a":` + huge + `,"b":` + next + `,"x":1}`, ""},
		{"a list in doubt", `{"l":[1]}`, `{"l":[` + huge + `,` + next + `]}`, "", "spec.l[0]"},
		{"a change that nobody sees", `{"huge":` + huge + `}`, `{"huge":` + next + `}`, "", "spec.huge"},
		{"a change that all see", `{"huge":` + huge + `}`, `{"huge":` + `22345678901234567891` + `}`, `{"huge":22345678901234567891}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			document := func(spec string) string {
				return `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"},"spec":` + spec + `}`
			}
			current := object(t, document(test.live))
			current.UID = "u"
			got, _, err := p.Apply(t.Context(), gadgets(), "", &current, patch.Request{
				ContentType: applyPatch, Body: []byte(document(test.applied)), FieldManager: "m", Force: true, Now: noon,
			})
			if test.refused != "" {
				var refusal *namespace.Error
				require.ErrorAs(t, err, &refusal)
				require.ErrorIs(t, err, namespace.ErrInvalid)
				require.Equal(t, test.refused, refusal.Causes[0].Field)
				return
			}
			require.NoError(t, err)
			require.Equal(t, numbers(t, []byte(test.want)), numbers(t, got.Fields["spec"]))
		})
	}
}

// numbers decodes a value with its numbers as they are written.
func numbers(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var tree any
	require.NoError(t, d.Decode(&tree))
	return tree
}

// A change of a number that float64 does not see is a change nevertheless.
func TestPatchesSeeAllDigits(t *testing.T) {
	for contentType, body := range map[string]string{
		mergePatch: `{"spec":{"n":12345678901234567891}}`, jsonPatch: `[{"op":"replace","path":"/spec/n","value":12345678901234567891}]`,
	} {
		current := object(t, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a","uid":"u"},"spec":{"n":12345678901234567890}}`)
		got, _, err := newPatcher(t).Apply(t.Context(), gadgets(), "", &current, patch.Request{ContentType: contentType, Body: []byte(body), Now: noon})
		require.NoError(t, err)
		require.Equal(t, `{"n":12345678901234567891}`, string(got.Fields["spec"]))
	}
}
