package deleter_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// tenants stands for the tables of an ordinary service. The namespace of a tenant has the
// tenant's name, and its uid is the tenant's creation id.
type tenants struct {
	id      map[string]string // by tenant
	deleted map[string]bool
	rows    map[string][]string
	indexed map[string]bool
}

// check stands for "select deleted from tenants where name = $1 and id = $2 for update", in the
// transaction of the statement that follows.
func (s *tenants) check(t deleter.Target) error {
	if s.id[t.Namespace] != t.UID {
		return deleter.ErrIncarnation
	}
	return nil
}

// checkDeleted also compares the column deleted.
func (s *tenants) checkDeleted(t deleter.Target) error {
	if !s.deleted[t.Namespace] {
		return deleter.ErrIncarnation
	}
	return s.check(t)
}

func (s *tenants) deleteInvoices(_ context.Context, t deleter.Target) (remaining int, err error) {
	if err := s.checkDeleted(t); err != nil {
		return 0, err
	}
	delete(s.rows, t.Namespace) // delete from invoices where tenant_id = $1
	return 0, nil
}

func (s *tenants) countInvoices(_ context.Context, t deleter.Target) (int, error) {
	return len(s.rows[t.Namespace]), s.check(t) // select count(*) from invoices where tenant_id = $1
}

// listInvoices stands for "select number from invoices where tenant_id = $1 and number > $2
// order by number limit $3".
func (s *tenants) listInvoices(_ context.Context, t deleter.Target, after string, limit int) ([]deleter.Item, error) {
	var items []deleter.Item
	for _, number := range slices.Sorted(slices.Values(s.rows[t.Namespace])) {
		if strings.Compare(number, after) > 0 && len(items) < limit {
			items = append(items, deleter.Item{Name: number})
		}
	}
	return items, s.check(t)
}

func (s *tenants) deleteIndex(_ context.Context, t deleter.Target) (remaining int, err error) {
	if err := s.checkDeleted(t); err != nil {
		return 0, err
	}
	delete(s.indexed, t.Namespace)
	return 0, nil
}

func (s *tenants) countIndex(_ context.Context, t deleter.Target) (int, error) {
	if s.indexed[t.Namespace] {
		return 1, s.check(t)
	}
	return 0, s.check(t)
}

// An ordinary service deletes the invoices and the search index of a tenant by functions.
// Count and List let it preview the deletion.
func ExampleFuncs() {
	s := &tenants{
		id:      map[string]string{"acme": "t-4711"},
		deleted: map[string]bool{},
		rows:    map[string][]string{"acme": {"2026-001", "2026-002"}},
		indexed: map[string]bool{"acme": true},
	}
	invoices, search := namespace.ResourceType{Name: "invoices"}, namespace.ResourceType{Name: "searchindexes"}
	d, err := deleter.New([]deleter.Source{
		{Resource: invoices, Content: deleter.Funcs{Delete: s.deleteInvoices, Count: s.countInvoices, List: s.listInvoices}.Content()},
		{Resource: search, Content: deleter.Funcs{Delete: s.deleteIndex, Count: s.countIndex}.Content(), After: []namespace.ResourceType{invoices}},
	}, nil)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()

	preview, err := d.Inspect(ctx, deleter.Target{Namespace: "acme", UID: "t-4711"})
	for _, r := range preview.Results {
		fmt.Printf("%s: %d %v\n", r.Resource, r.Remaining, r.Sample)
	}
	fmt.Println(err)

	s.deleted["acme"] = true
	report, err := d.Delete(ctx, deleter.Target{Namespace: "acme", UID: "t-4711", DeletedAt: time.Now()}, deleter.Report{})
	fmt.Println(report.Empty(), err, len(s.rows), len(s.indexed))

	// A late pass for a removed tenant of the same name deletes nothing (rule R8).
	_, err = d.Delete(ctx, deleter.Target{Namespace: "acme", UID: "t-4199", DeletedAt: time.Now()}, deleter.Report{})
	fmt.Println(err)
	// Output:
	// invoices: 2 [2026-001 2026-002]
	// searchindexes: 1 []
	// <nil>
	// true <nil> 0 0
	// invoices: empty: not a terminating incarnation of the namespace
}
