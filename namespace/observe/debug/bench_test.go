package debug_test

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkIndex measures an index with the maximum of listed namespaces, of which it explains 100.
func BenchmarkIndex(b *testing.B) {
	p := newPlace()
	for i := range 10_000 {
		p.set(going(fmt.Sprintf("n%05d", i), time.Now()))
	}
	h := newHandler(b, p, p, nil)
	for range 10 {
		get(h, "/") // all ages are known
	}
	b.ReportAllocs()
	for b.Loop() {
		get(h, "/")
	}
}

func BenchmarkPage(b *testing.B) {
	place, options := scene(time.Now())
	h := newHandler(b, place, place, options)
	b.ReportAllocs()
	for b.Loop() {
		get(h, "/?namespace=analytics")
	}
}
