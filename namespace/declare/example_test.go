package declare_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// A protected namespace can be deleted after the protection is removed.
func ExampleProtection() {
	ns := namespace.PrepareCreate(namespace.Namespace{Meta: namespace.Meta{Name: "billing"}},
		finalizer.Kubernetes, "uid-1", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	key, value, err := declare.Protection{Name: "legal", Owner: "team-a", Reason: "contract until May"}.Annotation()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key, value)
	ns.Annotations = map[string]string{key: value}

	err = declare.ValidateDelete(ns, namespace.Preconditions{})
	fmt.Println(errors.Is(err, namespace.ErrForbidden), err)

	delete(ns.Annotations, key)
	fmt.Println(declare.ValidateDelete(ns, namespace.Preconditions{}))
	// Output:
	// protection.nslifecycle.io/legal {"owner":"team-a","reason":"contract until May"}
	// true namespaces "billing" is forbidden: deletion is protected by legal (owner team-a: contract until May); remove the annotation protection.nslifecycle.io/legal first
	// <nil>
}

// Unreadable protections are reported beside the readable ones.
func ExampleProtections() {
	protections, err := declare.Protections(namespace.Meta{Name: "billing", Annotations: map[string]string{
		"protection.nslifecycle.io/legal":   `{"owner":"team-a","reason":"contract until May"}`,
		"protection.nslifecycle.io/backups": `true`,
	}})
	for _, p := range protections {
		fmt.Printf("%s: ask %s (%s)\n", p.Name, p.Owner, p.Reason)
	}
	fmt.Println(err)
	// Output:
	// legal: ask team-a (contract until May)
	// Namespace "billing" is invalid: metadata.annotations[protection.nslifecycle.io/backups]: Invalid value: "true": must be a JSON object with owner, reason
}

// A waiver applies until its end.
func ExampleWaiver() {
	until := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	key, value, err := declare.Waiver{
		Name: "metrics", Source: "metrics.example.com", By: "ada", Reason: "uninstalled", Until: until,
	}.Annotation()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key, value)
	waivers, err := declare.Waivers(namespace.Meta{Annotations: map[string]string{key: value}})
	fmt.Println(waivers[0].Source, waivers[0].Expired(until.Add(-time.Second)), waivers[0].Expired(until), err)
	// Output:
	// waiver.nslifecycle.io/metrics {"source":"metrics.example.com","by":"ada","reason":"uninstalled","until":"2026-01-02T15:04:05Z"}
	// metrics.example.com false true <nil>
}
