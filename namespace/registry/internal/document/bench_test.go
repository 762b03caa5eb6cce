package document_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/document"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Encoding and parsing an object of about 600 bytes; "json" is the marshaling of its metadata
// alone.
func BenchmarkDocument(b *testing.B) {
	t := namespace.TypeMeta{Kind: "Widget", APIVersion: "example.com/v1"}
	meta := namespace.Meta{
		Name: "a", Namespace: "x", UID: "6df6489d-5cf2-4688-999b-da2faa11582d", Generation: 1, CreationTimestamp: phase.At(time.Now()),
		Labels: map[string]string{"app": "web"},
	}
	fields := []document.Field{{Name: "spec", Value: json.RawMessage(`"` + strings.Repeat("x", 300) + `"`)}}
	value, err := document.Encode(t, meta, fields)
	require.NoError(b, err)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = document.Encode(t, meta, fields)
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(meta)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = document.Parse(value)
		}
	})
}
