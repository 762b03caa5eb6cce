package declare_test

import (
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
)

type violations = []namespace.Violation

var (
	now     = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	earlier = now.Add(-time.Hour)
	// year12000 has no form in JSON.
	year12000 = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
)

func named(name string) namespace.Namespace {
	return namespace.Namespace{Meta: namespace.Meta{Name: name}}
}
