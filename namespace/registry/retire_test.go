package registry_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
)

const invoicesRecord = "/registry/.types/invoices.example.com"

// A type is retired when no object of it is left, on record. Then versions that do not
// declare it empty namespaces again.
func TestR7_RetireType(t *testing.T) {
	old, new, s := versions(t)
	start := now(t, s)
	ctx := audit.WithActor(t.Context(), "alice")
	require.ErrorIs(t, old.RetireType(ctx, invoices.Name(), "dropped"), namespace.ErrNotFound)
	require.ErrorIs(t, old.RetireType(ctx, namespace.ResourceType{Name: ".gate"}, "dropped"), namespace.ErrBadRequest)
	require.ErrorIs(t, old.RetireType(ctx, invoices.Name(), " "), namespace.ErrInvalid)
	for _, name := range []string{"a", "b", "b-c", "b0"} {
		new.create(name)
		new.put(invoices.Name(), name, object("i"))
	}
	new.put(invoices.Name(), "a", object("j"))
	err := old.RetireType(ctx, invoices.Name(), "dropped")
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.EqualError(t, err, `Operation cannot be fulfilled on resource types "invoices.example.com": objects of the type are left, in the namespaces a, b-c, others`)
	record, err := s.Get(ctx, invoicesRecord)
	require.NoError(t, err)
	require.Equal(t, "active", string(record.Value))
	for _, name := range []string{"a", "b", "b-c", "b0"} {
		new.terminate(name)
		new.report = deleter.Report{}
		_, err := new.pass(name)
		require.NoError(t, err)
	}
	require.NoError(t, old.DryRun().RetireType(ctx, invoices.Name(), "dropped"))
	_, err = s.Get(ctx, invoicesRecord)
	require.NoError(t, err, "a dry run")
	old.create("acme")
	old.terminate("acme")
	_, err = old.pass("acme")
	require.ErrorIs(t, err, deleter.ErrUndeclared)

	require.NoError(t, old.RetireType(ctx, invoices.Name(), "dropped in v3"))
	result, err := old.pass("acme")
	require.NoError(t, err)
	require.Equal(t, pass.Removed, result.Outcome)
	log, err := audit.New(s, nil)
	require.NoError(t, err)
	records, err := log.List(ctx, audit.Types)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, audit.Retired, records[0].Action)
	require.Equal(t, [...]string{"invoices.example.com", "alice", "dropped in v3"}, [...]string{records[0].Resource, records[0].By, records[0].Reason})
	require.NoError(t, registrytest.Audit(ctx, s, "registry", start, now(t, s).Revision))
}

// A type that has become cluster-scoped is retired while there are objects of the cluster:
// no namespace holds them.
func TestR7_RetireTypeThatChangedItsScope(t *testing.T) {
	_, older, s := versions(t)
	scoped := invoices
	scoped.Namespaced = false
	newer := newVersion(t, s, documents, scoped)
	older.create("acme")
	older.put(invoices.Name(), "acme", object("z"))
	for _, name := range []string{"a", "acme", "z"} {
		_, err := newer.content(invoices.Name()).Create(t.Context(), "", object(name))
		require.NoError(t, err)
	}
	err := newer.RetireType(t.Context(), invoices.Name(), "cluster-scoped now")
	require.ErrorIs(t, err, namespace.ErrConflict)
	require.ErrorContains(t, err, "in the namespaces acme")
	older.terminate("acme")
	_, err = newer.pass("acme")
	require.ErrorIs(t, err, deleter.ErrUndeclared)
	_, err = older.pass("acme")
	require.NoError(t, err)
	require.NoError(t, newer.RetireType(t.Context(), invoices.Name(), "cluster-scoped now"))
	newer.create("acme")
	newer.terminate("acme")
	_, err = newer.pass("acme")
	require.NoError(t, err)
}

// perCommit is a store that does something at each commit in turn.
type perCommit struct {
	store.Store
	before []func()
	lose   []bool // the commit is not made, and its outcome unknown
	after  []func(err error) error
}

func (s *perCommit) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if len(s.before) > 0 {
		do := s.before[0]
		s.before = s.before[1:]
		do()
	}
	if len(s.lose) > 0 {
		lose := s.lose[0]
		s.lose = s.lose[1:]
		if lose {
			return 0, store.ErrUnknownOutcome
		}
	}
	revision, err := s.Store.Commit(ctx, txn)
	if len(s.after) > 0 {
		then := s.after[0]
		s.after = s.after[1:]
		err = then(err)
	}
	return revision, err
}

// A create that comes while a type is being retired keeps it on record.
func TestR7_RetireMeetsCreates(t *testing.T) {
	for commit, name := range []string{"before it begins", "after the listing"} {
		t.Run(name, func(t *testing.T) {
			_, new, s := versions(t)
			start := now(t, s)
			new.create("x")
			new.put(invoices.Name(), "x", object("a"))
			_, err := new.content(invoices.Name()).Delete(t.Context(), "x", "a", anyVersion)
			require.NoError(t, err)
			before := make([]func(), commit+1)
			for i := range before {
				before[i] = func() {}
			}
			before[commit] = func() { new.put(invoices.Name(), "x", object("b")) }
			racing := newVersion(t, &perCommit{Store: s, before: before}, documents)
			err = racing.RetireType(t.Context(), invoices.Name(), "dropped")
			require.ErrorIs(t, err, namespace.ErrConflict)
			require.Len(t, objectNames(must(new.content(invoices.Name()).List(t.Context(), "x", registry.ListOptions{}))), 1)
			record, err := s.Get(t.Context(), invoicesRecord)
			require.NoError(t, err)
			require.Equal(t, "active", string(record.Value))
			require.NoError(t, registrytest.Audit(t.Context(), s, "registry", start, now(t, s).Revision))
		})
	}
}

// Whatever a RetireType was cut short by, a second one finishes it, and one whose commits
// have unknown outcomes finds out.
func TestR7_RetireIsCutShort(t *testing.T) {
	lost := func(err error) error { return fmt.Errorf("%w: no answer (%v)", store.ErrUnknownOutcome, err) }
	cut := func(error) error { return errEnough }
	asIs := func(err error) error { return err }
	for _, row := range []struct {
		name  string
		after []func(error) error
		lose  []bool
		want  error // of the first call
		state string
	}{
		{"commits that are lost", nil, []bool{true, false, true}, nil, ""},
		{"no answer to the first commit", []func(error) error{lost}, nil, nil, ""},
		{"no answer to the second", []func(error) error{asIs, lost}, nil, nil, ""},
		{"no answer to any", []func(error) error{lost, asIs, lost}, nil, nil, ""},
		{"an end after the first", []func(error) error{cut}, nil, errEnough, "retiring"},
		{"an end after the second", []func(error) error{asIs, cut}, nil, errEnough, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			old, new, s := versions(t)
			new.create("x")
			new.put(invoices.Name(), "x", object("a"))
			new.terminate("x")
			_, err := new.pass("x")
			require.NoError(t, err)
			broken := newVersion(t, &perCommit{Store: s, after: row.after, lose: row.lose}, documents)
			require.ErrorIs(t, broken.RetireType(t.Context(), invoices.Name(), "dropped"), row.want)
			record, err := s.Get(t.Context(), invoicesRecord)
			if row.state != "" {
				require.NoError(t, err)
				require.Equal(t, row.state, string(record.Value))
				require.NoError(t, old.RetireType(t.Context(), invoices.Name(), "dropped"))
				_, err = s.Get(t.Context(), invoicesRecord)
			}
			require.ErrorIs(t, err, store.ErrNotFound)
			log, err := audit.New(s, nil)
			require.NoError(t, err)
			records, err := log.List(t.Context(), audit.Types)
			require.NoError(t, err)
			require.Len(t, records, 1)
		})
	}
}
