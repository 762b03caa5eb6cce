package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const widgetsRecord = "/registry/.types/widgets.example.com"

// callCounter counts the calls that a registry makes.
type callCounter struct {
	store.Store
	gets, commits atomic.Int32
	race          func() // before the next commit that creates content
}

func (s *callCounter) Get(ctx context.Context, key string) (store.Entry, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, key)
}

func (s *callCounter) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	s.commits.Add(1)
	if race := s.race; race != nil {
		s.race = nil
		race()
	}
	return s.Store.Commit(ctx, txn)
}

// The first create of a namespaced type puts its record in the same commit. Further ones
// hold it, and read nothing. Each process reads it once. Cluster-scoped types and dry runs
// put none.
func TestR7_TypesAreRecorded(t *testing.T) {
	m, err := memory.New(nil)
	require.NoError(t, err)
	s := &callCounter{Store: m}
	e, other := newEnvOver(t, s), newEnvOver(t, s)
	record := func() (store.Entry, error) { return m.Get(t.Context(), widgetsRecord) }
	e.create("x")
	e.put(nodes, "", object("n"))
	dry, err := e.DryRun().Content(widgets)
	require.NoError(t, err)
	_, err = dry.Create(t.Context(), "x", object("a"))
	require.NoError(t, err)
	_, err = e.content(widgets).Create(t.Context(), "nowhere", object("a"))
	require.ErrorIs(t, err, namespace.ErrNotFound)
	_, err = record()
	require.ErrorIs(t, err, store.ErrNotFound)

	a := e.put(widgets, "x", object("a"))
	entry, err := record()
	require.NoError(t, err)
	made, err := m.Get(t.Context(), "/registry/widgets.example.com/x/a")
	require.NoError(t, err)
	require.Equal(t, made.Revision, entry.Revision, "one commit")
	require.Equal(t, "active", string(entry.Value))
	require.NotEmpty(t, a.UID)

	for i, r := range []*env{e, other, other} {
		s.gets.Store(0)
		s.commits.Store(0)
		r.put(widgets, "x", registry.Object{Meta: namespace.Meta{GenerateName: "b-"}})
		require.EqualValues(t, 1, s.commits.Load(), "create %d", i)
		require.EqualValues(t, []int{0, 3, 0}[i], s.gets.Load(), "create %d: the format, the record and the gate are read once", i)
	}
	again, err := record()
	require.NoError(t, err)
	require.Equal(t, entry.Revision, again.Revision, "it is not written again")
}

// A create goes by the record as it is when it commits, whatever the process remembers.
func TestR7_CreateFollowsTheRecord(t *testing.T) {
	m, err := memory.New(nil)
	require.NoError(t, err)
	s := &callCounter{Store: m}
	e, other := newEnvOver(t, s), newEnvOver(t, m)
	e.create("x")
	write := func(op store.Operation) func() {
		return func() {
			_, err := m.Commit(t.Context(), store.Txn{Do: []store.Operation{op}})
			require.NoError(t, err)
		}
	}
	for _, row := range []struct {
		name string
		race func()
		puts bool
	}{
		{"nothing", func() {}, true},
		{"another process puts it", func() { other.put(widgets, "x", object("other")) }, false},
		{"it is being retired", write(store.Put(widgetsRecord, []byte("retiring"))), true},
		{"the retirement was given up", write(store.Put(widgetsRecord, []byte("active"))), false},
		{"it is retired", write(store.Delete(widgetsRecord)), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.name == "another process puts it" {
				write(store.Delete(widgetsRecord))()
			}
			s.race = row.race
			made := e.put(widgets, "x", registry.Object{Meta: namespace.Meta{GenerateName: "a-"}})
			record, err := m.Get(t.Context(), widgetsRecord)
			require.NoError(t, err)
			require.Equal(t, "active", string(record.Value))
			entry, err := m.Get(t.Context(), "/registry/widgets.example.com/x/"+made.Name)
			require.NoError(t, err)
			require.Equal(t, row.puts, record.Revision == entry.Revision)
		})
	}
}

var (
	documents = registry.Type{Group: "example.com", Version: "v1", Resource: "documents", Kind: "Document", Namespaced: true}
	invoices  = registry.Type{Group: "example.com", Version: "v1", Resource: "invoices", Kind: "Invoice", Namespaced: true}
)

// version is one version of a service, which declares types of its own.
type version struct {
	*env
	deleter *deleter.Composed
	report  deleter.Report
}

func newVersion(t *testing.T, s store.Store, types ...registry.Type) *version {
	t.Helper()
	r, err := registry.New(s, &registry.Options{Types: types})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	d, err := r.Deleter(nil)
	require.NoError(t, err)
	return &version{env: &env{Registry: r, t: t, ctx: t.Context(), store: s}, deleter: d}
}

func (v *version) pass(name string) (pass.Result, error) {
	result, err := pass.Run(v.ctx, v.Registry, v.deleter, namespace.Party{Finalizer: finalizer.Kubernetes},
		pass.Request{Name: name, Previous: v.report})
	v.report = result.Report
	return result, err
}

func (v *version) condition(name string, t phase.ConditionType) phase.Condition {
	v.t.Helper()
	n, err := v.Get(v.ctx, name)
	require.NoError(v.t, err)
	for _, c := range n.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	v.t.Fatalf("%s has no condition %s", name, t)
	return phase.Condition{}
}

func (v *version) waive(name, source string) {
	v.t.Helper()
	n, err := v.Get(v.ctx, name)
	require.NoError(v.t, err)
	w := declare.Waiver{Name: "upgrade", Source: source, By: "test", Reason: "invoices are gone", Until: time.Now().Add(time.Hour)}
	key, value, err := w.Annotation()
	require.NoError(v.t, err)
	n.Annotations = map[string]string{key: value}
	_, err = v.Update(v.ctx, n)
	require.NoError(v.t, err)
}

func versions(t *testing.T) (old, new *version, s store.Store) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
		require.NoError(t, s.Close())
	})
	return newVersion(t, s, documents), newVersion(t, s, documents, invoices), s
}

// A controller of an old version does not finalize a namespace that may hold content of a
// type that only the new version declares. Its conditions give the reason and the next
// step.
func TestR7_UndeclaredTypeFailsClosed(t *testing.T) {
	old, new, _ := versions(t)
	new.create("acme")
	new.create("empty")
	new.put(documents.Name(), "acme", object("d"))
	new.put(invoices.Name(), "acme", object("i"))
	new.terminate("acme")
	new.terminate("empty")
	for range 2 {
		result, err := old.pass("acme")
		require.ErrorIs(t, err, deleter.ErrUndeclared)
		require.Equal(t, pass.Failed, result.Outcome)
		failed := old.condition("acme", phase.ContentFailure)
		require.Equal(t, phase.True, failed.Status)
		require.Equal(t, "Failed to delete all resource types, 1 remaining: invoices.example.com: another version of the service stored objects of this type, "+
			"and this process does not declare it; run a version that declares it, or retire the type once none of it is left", failed.Message)
		left := old.condition("acme", phase.ContentRemaining)
		require.Equal(t, phase.True, left.Status)
		require.Equal(t, "Some resources are remaining: invoices.example.com has 1 resource instances", left.Message)
	}
	old.report = deleter.Report{}
	_, err := old.pass("empty")
	require.ErrorIs(t, err, deleter.ErrUndeclared)
	require.Equal(t, phase.Unknown, old.condition("empty", phase.ContentRemaining).Status)

	for _, name := range []string{"acme", "empty"} {
		new.report = deleter.Report{}
		result, err := new.pass(name)
		require.NoError(t, err)
		require.Equal(t, pass.Removed, result.Outcome)
	}
}

// A party that deletes some of the declared types fails closed as well.
func TestR7_UndeclaredTypeFailsEveryParty(t *testing.T) {
	old, new, _ := versions(t)
	n := new.create("acme")
	new.put(invoices.Name(), "acme", object("i"))
	new.terminate("acme")
	d, err := old.Deleter(&registry.DeleterOptions{Types: []namespace.ResourceType{documents.Name()}})
	require.NoError(t, err)
	target := deleter.Target{Namespace: "acme", UID: n.UID, DeletedAt: time.Now()}
	report, err := d.Delete(t.Context(), target, deleter.Report{})
	require.ErrorIs(t, err, deleter.ErrUndeclared)
	require.Equal(t, 1, report.Remaining())

	d, err = new.Deleter(&registry.DeleterOptions{Types: []namespace.ResourceType{documents.Name()}})
	require.NoError(t, err)
	report, err = d.Delete(t.Context(), target, deleter.Report{})
	require.NoError(t, err)
	require.True(t, report.Empty(), "another party of this process deletes invoices")
	_, err = new.pass("acme")
	require.NoError(t, err)
}

// A waiver lets a namespace without objects of the type go, and no other one.
func TestR7_WaiverOfAnUndeclaredType(t *testing.T) {
	old, new, _ := versions(t)
	for _, name := range []string{"acme", "empty"} {
		new.create(name)
	}
	new.put(invoices.Name(), "acme", object("i"))
	for _, name := range []string{"acme", "empty"} {
		new.terminate(name)
		old.waive(name, "invoices.example.com")
	}
	_, err := old.pass("acme")
	var unwaived *deleter.UnwaivedError
	require.ErrorAs(t, err, &unwaived)
	require.Equal(t, 1, unwaived.Objects)
	require.ErrorIs(t, err, deleter.ErrUndeclared)

	old.report = deleter.Report{}
	result, err := old.pass("empty")
	require.NoError(t, err)
	require.Equal(t, pass.Removed, result.Outcome)
	require.Len(t, result.Report.Waived, 1)

	new.report = deleter.Report{}
	_, err = new.pass("acme")
	require.NoError(t, err)
}

// If it cannot be read which types are stored, any type may be.
func TestR7_UnknownTypeRecords(t *testing.T) {
	_, new, s := versions(t)
	n := new.create("acme")
	new.terminate("acme")
	broken := newVersion(t, brokenList{s, "/registry/.types/"}, documents)
	result, err := broken.pass("acme")
	require.ErrorIs(t, err, errEnough)
	require.Equal(t, pass.Failed, result.Outcome)
	require.Equal(t, phase.True, new.condition("acme", phase.DiscoveryFailure).Status)
	broken.waive("acme", "invoices.example.com")
	_, err = broken.pass("acme")
	require.ErrorIs(t, err, errEnough, "no waiver stands in for it")
	require.Equal(t, n.UID, result.Namespace.UID)
	_, err = new.pass("acme")
	require.NoError(t, err)
}

// brokenList is a store that cannot list below a prefix.
type brokenList struct {
	store.Store
	prefix string
}

func (s brokenList) List(ctx context.Context, q store.Query) (store.Page, error) {
	if q.Prefix == s.prefix {
		return store.Page{}, errEnough
	}
	return s.Store.List(ctx, q)
}

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
	require.EqualError(t, err, `Operation cannot be fulfilled on resource types "invoices.example.com": objects of the type are left, in the namespaces a, b-c, and others`)
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

// perCommit is a store that calls one function before each commit.
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

// However creates, deletions and retirements of one type interleave, and whenever their
// commits land, no object is ever stored without a type record, and no record goes without
// an audit record.
func TestR7_RetirementsAndCreates(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	kinds := map[string]int{}
	for round := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			m, err := memory.New(nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			rnd := rand.New(rand.NewPCG(seed, round))
			other := newEnvOver(t, m)
			other.create("n0")
			other.create("n1")
			start := now(t, m)
			request := func(e *env) {
				ns, name := fmt.Sprint("n", rnd.IntN(2)), fmt.Sprint("o", rnd.IntN(2))
				w := e.content(widgets)
				switch rnd.IntN(5) {
				case 0:
					_, _ = w.Create(e.ctx, ns, object(name))
				case 1, 2:
					_, _ = w.Delete(e.ctx, ns, name, anyVersion)
				case 3:
					_, _ = w.DeleteCollection(e.ctx, ns, labels(t, ""), fields(t, ""))
				default:
					switch err := e.RetireType(e.ctx, widgets, "unused"); {
					case err == nil:
						kinds["retired"]++
					case errors.Is(err, namespace.ErrUnknownOutcome):
						kinds["unknown"]++
					case errors.Is(err, namespace.ErrConflict):
						kinds["in use"]++
					default:
						require.ErrorIs(t, err, namespace.ErrNotFound)
					}
				}
			}
			s := &adrift{Store: m, t: t, rnd: rnd, kinds: kinds}
			s.others = func() { request(other) }
			e := newEnvOver(t, s)
			for range 60 {
				request(e)
				s.meanwhile()
			}
			for len(s.afloat) > 0 {
				s.meanwhile()
			}
			ctx := context.WithoutCancel(t.Context())
			require.NoError(t, registrytest.Audit(ctx, m, "registry", start, now(t, m).Revision))
			require.NoError(t, registrytest.Check(ctx, m, "registry"))
		})
	}
	for _, kind := range []string{"late", "landed late", "retired", "unknown", "in use"} {
		require.NotZero(t, kinds[kind], kind)
	}
}
