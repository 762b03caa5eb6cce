package namespace_test

import (
	"encoding/json"
	"testing"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

func BenchmarkDecide(b *testing.B) {
	ns := namespace.MarkDeleted(namespace.PrepareCreate(named("x", "openshift.com/origin"), "", "u", earlier), earlier)
	ns.Status.Conditions = phase.Conditions(nil, phase.Observation{}, "", earlier)
	party := namespace.Party{Finalizer: finalizer.Kubernetes}
	for name, seen := range map[string]namespace.Observed{
		"gone":      {},
		"remaining": {Observation: phase.Observation{Remaining: []phase.Remaining{{Resource: "pods", Count: 2}}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				namespace.Decide(ns, party, seen, now)
			}
		})
	}
}

func BenchmarkCreate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := namespace.ValidateCreate(namespace.PrepareCreate(named("development"), "", "u", now)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	n := full()
	data, err := json.Marshal(n)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(n)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = decode(data)
		}
	})
}

func BenchmarkDeepCopy(b *testing.B) {
	n := full()
	b.ReportAllocs()
	for b.Loop() {
		n.DeepCopy()
	}
}
