package declare_test

import (
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
)

type violations = []namespace.Violation

var (
	now     = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	earlier = now.Add(-time.Hour)
	// year12000 has no JSON form.
	year12000 = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
)

func named(name string) namespace.Namespace {
	return namespace.Namespace{Meta: namespace.Meta{Name: name}}
}

// annotated returns metadata with annotations, given as keys and values.
func annotated(pairs ...string) namespace.Meta {
	m := namespace.Meta{Name: "x"}
	if len(pairs) > 0 {
		m.Annotations = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		m.Annotations[pairs[i]] = pairs[i+1]
	}
	return m
}

const (
	legal    = "protection.nslifecycle.io/legal"
	legalIs  = `{"owner":"team-a","reason":"contract until May"}`
	backups  = "protection.nslifecycle.io/backups"
	backupIs = `{"owner":"ops","reason":"the last copy"}`
)

// protectedNamespace returns an Active namespace with annotations.
func protectedNamespace(pairs ...string) namespace.Namespace {
	n := named("x")
	n.Annotations = annotated(pairs...).Annotations
	return namespace.PrepareCreate(n, "", "uid-1", earlier)
}
