package patch_test

import (
	"testing"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/patch"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

func BenchmarkApply(b *testing.B) {
	p := newPatcher(b)
	plain := object(b, configMap)
	apply := patch.Request{Type: applyPatch, Body: []byte(cm("{k: v, l: w}")), FieldManager: "m", Now: noon}
	tracked, _, err := p.Apply(kinds.ConfigMaps(), "", &plain, apply)
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name    string
		current registry.Object
		request patch.Request
	}{
		{"json", plain, patch.Request{Type: jsonPatch, Body: []byte(`[{"op":"add","path":"/data/x","value":"y"}]`)}},
		{"merge", plain, patch.Request{Type: mergePatch, Body: []byte(`{"data":{"x":"y"}}`)}},
		{"strategic", plain, patch.Request{Type: strategic, Body: []byte(`{"data":{"x":"y"}}`)}},
		{"merge of managed fields", tracked, patch.Request{Type: mergePatch, Body: []byte(`{"data":{"x":"y"}}`), FieldManager: "n"}},
		{"apply", tracked, apply},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := p.Apply(kinds.ConfigMaps(), "", &bench.current, bench.request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := makePatcher(); err != nil {
			b.Fatal(err)
		}
	}
}
