package patch_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/store"
)

// items returns n items of a list in descending order, the worst case for sorted insertion.
func items(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, 1_000_000-i)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func metadata(field, value string) string {
	return `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","` + field + `":` + value + `}}`
}

// A strategic merge patch compares each added item with the items it added before.
func TestBoundsOfStrategicMerges(t *testing.T) {
	p := newPatcher(t)
	const stored = `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"a","uid":"u"},"secrets":[{"name":"s"}]}`
	for n, ok := range map[int]bool{600: true, 1_000: false} {
		for _, body := range []string{
			`{"secrets":` + items(n, `{"name":"%d"}`) + `}`, `{"metadata":{"finalizers":` + items(n, `"a/%d"`) + `}}`,
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":` + items(n, `"a/%d"`) + `}}`,
		} {
			current := object(t, stored)
			_, _, err := p.Apply(kinds.ServiceAccounts(), "", &current, patch.Request{Type: strategic, Body: []byte(body), Now: noon})
			if ok {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, store.ErrTooLarge)
		}
	}
}

// wide are objects with too many fields for managed fields, and the field that the message
// names. Some would take many seconds.
func wide() map[string]string {
	inner, err := json.Marshal(metadata("finalizers", items(4_000, `"%d"`)))
	if err != nil {
		return nil
	}
	return map[string]string{
		metadata("finalizers", items(4_000, `"%d"`)):                                                                     "metadata.finalizers has more than 2000 items",
		metadata("ownerReferences", items(5_000, `{"uid":"%d"}`)):                                                        "metadata.ownerReferences has more than 2000 items",
		metadata("labels", `{`+fields(12_000, `""`)+`}`):                                                                 "metadata.labels has more fields",
		metadata("annotations", `{"kubectl.kubernetes.io/last-applied-configuration":`+string(inner)+`}`):                "metadata.finalizers has more than 2000 items",
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u"},"data":{` + fields(12_000, `""`) + `}}`: "data has more fields",
	}
}

func TestBoundsOfApply(t *testing.T) {
	p, k := newPatcher(t), kinds.ConfigMaps()
	for whole, message := range wide() {
		t.Run(message, func(t *testing.T) {
			for _, live := range []bool{true, false} {
				stored, body := configMap, whole
				if live {
					stored, body = whole, cm(`{k: v}`)
				}
				current := object(t, stored)
				_, _, err := p.Apply(k, "", &current, patch.Request{
					Type: applyPatch, Body: []byte(strings.Replace(body, `,"uid":"u"`, "", 1)), FieldManager: "m", Now: noon,
				})
				require.ErrorIs(t, err, store.ErrTooLarge)
				require.ErrorContains(t, err, message)
				require.ErrorContains(t, err, "by another patch")
				require.Less(t, len(err.Error()), 1000)
			}
		})
	}
	w := object(t, widget)
	for n, message := range map[int]string{1_000: "", 2_001: "spec.parts has more than 2000 items"} {
		body := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"parts":` + items(n, `{"name":"%d"}`) + `}}`
		_, _, err := p.Apply(widgets(), "", &w, patch.Request{Type: applyPatch, Body: []byte(body), FieldManager: "m", Now: noon})
		if message == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, message)
	}
	// A list that is not merged has one owner and no bound.
	g := object(t, gadget)
	body := `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"},"spec":{"numbers":` + items(5_000, `{"a":%d}`) + `}}`
	_, _, err := p.Apply(gadgets(), "", &g, patch.Request{Type: applyPatch, Body: []byte(body), FieldManager: "m", Now: noon})
	require.NoError(t, err)
}

// Any change that exceeds the bounds ends the tracking of an object.
func TestTrackingOfWideObjectsEnds(t *testing.T) {
	for whole := range wide() {
		b := newBench(t, kinds.ConfigMaps(), configMap)
		b.apply("m", cm(`{k: v}`))
		require.Len(t, b.current.ManagedFields, 2)
		next := object(t, whole)
		next.ManagedFields = b.current.ManagedFields
		require.Empty(t, b.p.Updated(b.kind, "", *b.current, next, "n", noon).ManagedFields)
	}
	for _, entries := range []string{
		`[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{` + strings.ReplaceAll(fields(12_000, `{}`), `"n`, `"f:n`) + `}}}]`,
		items(251, `{"manager":"m%d","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}`),
	} {
		current := object(t, configMap)
		require.NoError(t, json.Unmarshal([]byte(entries), &current.ManagedFields))
		require.NotEmpty(t, current.ManagedFields)
		got := newPatcher(t).Updated(kinds.ConfigMaps(), "", current, current, "n", noon)
		require.Empty(t, got.ManagedFields)
	}
}
