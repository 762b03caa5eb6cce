package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// doubtful answers one commit with an unknown outcome. It lands that commit before it
// answers, or keeps it for the test to land.
type doubtful struct {
	store.Store
	armed bool
	lands bool
	then  func() // another writer, before the answer
	kept  store.Txn
}

func (s *doubtful) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if !s.armed {
		return s.Store.Commit(ctx, txn)
	}
	s.armed = false
	s.kept = txn
	if s.lands {
		if _, err := s.Store.Commit(ctx, txn); err != nil {
			return 0, err
		}
	}
	s.then()
	return 0, &store.Error{Op: "commit", Err: store.ErrUnknownOutcome}
}

// doubtfulEnv returns an env over a doubtful store, and the env of another writer over the
// inner store.
func doubtfulEnv(t *testing.T) (e, other *env, s *doubtful) {
	m, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	s = &doubtful{Store: m}
	return newEnvOver(t, s), newEnvOver(t, m), s
}

// remove deletes a namespace that has no content.
func (e *env) remove(name string) {
	e.t.Helper()
	if n := e.terminate(name); !namespace.Removable(n) {
		e.release(name)
	}
}

// The creations by which each of the writes below is made known: of a namespace, and of
// content in the namespace x.
func creations() map[string]func(e *env) creationCase {
	return map[string]func(e *env) creationCase{
		"namespace": func(e *env) creationCase {
			return creationCase{
				create: func() (namespace.Meta, error) {
					n, err := e.Create(e.ctx, named("a"))
					return n.Meta, err
				},
				get: func() (namespace.Meta, error) {
					n, err := e.Get(e.ctx, "a")
					return n.Meta, err
				},
				label: func() {
					n := e.get("a")
					n.Labels["by"] = "another"
					_, err := e.Update(e.ctx, n)
					require.NoError(e.t, err)
				},
				remove: func() { e.remove("a") },
			}
		},
		"content": func(e *env) creationCase {
			return creationCase{
				create: func() (namespace.Meta, error) {
					o, err := e.content(widgets).Create(e.ctx, "x", object("a"))
					return o.Meta, err
				},
				get: func() (namespace.Meta, error) {
					o, err := e.content(widgets).Get(e.ctx, "x", "a")
					return o.Meta, err
				},
				label: func() {
					o := object("a")
					o.Labels = map[string]string{"by": "another"}
					_, err := e.content(widgets).Update(e.ctx, "x", o)
					require.NoError(e.t, err)
				},
				remove: func() {
					_, err := e.content(widgets).Delete(e.ctx, "x", "a", anyVersion)
					require.NoError(e.t, err)
				},
			}
		},
	}
}

type creationCase struct {
	create, get   func() (namespace.Meta, error)
	label, remove func()
}

// A create of unknown outcome is certain only if the object is found. Absence, or another
// object of that name, proves nothing: the object may have been created and deleted.
func TestCreationsOfUnknownOutcome(t *testing.T) {
	for kind, of := range creations() {
		for _, row := range []struct {
			name  string
			lands bool
			then  func(other creationCase)
			known bool
		}{
			{"landed", true, func(creationCase) {}, true},
			{"landed, changed", true, func(c creationCase) { c.label() }, true},
			{"landed, deleted", true, func(c creationCase) { c.remove() }, false},
			{"landed, deleted, name taken", true, func(c creationCase) {
				c.remove()
				_, _ = c.create()
			}, false},
			{"not landed", false, func(creationCase) {}, false},
			{"not landed, name taken", false, func(c creationCase) { _, _ = c.create() }, false},
		} {
			t.Run(kind+"/"+row.name, func(t *testing.T) {
				e, other, s := doubtfulEnv(t)
				other.create("x")
				here, there := of(e), of(other)
				var was namespace.Meta // as stored when the commit was answered
				var wasErr error
				s.armed, s.lands = true, row.lands
				s.then = func() {
					row.then(there)
					was, wasErr = there.get()
				}
				made, err := here.create()
				now, nowErr := there.get()
				require.Equal(t, wasErr, nowErr, "nothing is written after the outcome is unknown")
				require.Equal(t, was, now)
				if !row.known {
					require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
					require.NotErrorIs(t, err, namespace.ErrExists)
					return
				}
				require.NoError(t, err)
				require.Equal(t, now, made, "the present state")
			})
		}
	}
}

// The error of a create of unknown outcome has the generated name, so that the client can
// read it.
func TestUnknownOutcomeHasTheGeneratedName(t *testing.T) {
	e, other, s := doubtfulEnv(t)
	other.create("x")
	s.armed, s.lands, s.then = true, false, func() {}
	_, err := e.content(widgets).Create(e.ctx, "x", registry.Object{Meta: namespace.Meta{GenerateName: "a-"}})
	var unknown *namespace.Error
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, namespace.ErrUnknownOutcome, unknown.Kind)
	_, err = s.Store.Commit(e.ctx, s.kept)
	require.NoError(t, err)
	require.True(t, other.hasWidget("x", unknown.Name), unknown.Name)
}

// A create that lands after its answer does so in the incarnation that it was sent to,
// or not at all.
func TestR8_LateCreateStaysInItsIncarnation(t *testing.T) {
	for _, warm := range []bool{false, true} { // whether the gate was seen before
		e, other, s := doubtfulEnv(t)
		other.create("x")
		if warm {
			e.put(widgets, "x", object("first"))
			_, err := other.content(widgets).Delete(e.ctx, "x", "first", anyVersion)
			require.NoError(t, err)
		}
		s.armed, s.then = true, func() {}
		_, err := e.content(widgets).Create(e.ctx, "x", object("a"))
		require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
		other.remove("x")
		other.create("x")
		_, err = s.Store.Commit(e.ctx, s.kept)
		require.ErrorIs(t, err, store.ErrConflict)
		require.False(t, other.hasWidget("x", "a"))
	}
}

// Creates follow the gate when it is rewritten, and when the namespace is recreated.
// They read it once, not for every create.
func TestR6_CreatesFollowTheGate(t *testing.T) {
	e := newEnv(t)
	late := &lateStore{Store: e.store}
	l := newEnvOver(t, late)
	e.create("x")
	create := func(name string) int {
		late.total = 0
		_, err := l.content(widgets).Create(e.ctx, "x", object(name))
		require.NoError(t, err)
		return late.total
	}
	require.Equal(t, 3, create("a"), "the format, the gate and the type record")
	require.Zero(t, create("b"))

	gate, err := e.store.Get(e.ctx, "/registry/.gate/x")
	require.NoError(t, err)
	_, err = e.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put(gate.Key, gate.Value)}})
	require.NoError(t, err)
	require.Equal(t, 1, create("c"), "the gate")
	require.Zero(t, create("d"))

	for _, name := range []string{"a", "b", "c", "d"} {
		_, err := e.content(widgets).Delete(e.ctx, "x", name, anyVersion)
		require.NoError(t, err)
	}
	e.remove("x")
	e.create("x")
	require.Equal(t, 1, create("a"), "the gate")
}

// busyGate is a store in which another process rewrites the gate of a namespace at the
// first three commits, and then whenever time passes between a look at it and a commit.
type busyGate struct {
	store.Store
	t       *testing.T
	gate    string
	commits int
	read    time.Time
}

func (s *busyGate) Get(ctx context.Context, key string) (store.Entry, error) {
	if key == s.gate {
		s.read = time.Now()
	}
	return s.Store.Get(ctx, key)
}

func (s *busyGate) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if s.commits++; s.commits <= 3 || time.Now().After(s.read) {
		gate, err := s.Store.Get(ctx, s.gate)
		require.NoError(s.t, err)
		_, err = s.Store.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(gate.Key, gate.Value)}})
		require.NoError(s.t, err)
	}
	return s.Store.Commit(ctx, txn)
}

// A create is not starved by another process that touches the gate all the time: it looks
// at the gate after it has backed off, not before.
func TestCreatesThroughABusyGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.create("x")
		busy := newEnvOver(t, &busyGate{Store: e.store, t: t, gate: "/registry/.gate/x"})
		_, err := busy.content(widgets).Create(e.ctx, "x", object("a"))
		require.NoError(t, err)
	})
}

// removal is a write that removes something, which another writer can recreate.
type removal struct {
	name     string
	prepare  func(e *env) // creates the removed object
	remove   func(e *env) (namespace.Meta, error)
	get      func(e *env) (namespace.Meta, error)
	recreate func(e *env) // after it was removed
}

func removals() []removal {
	space := func(e *env) (namespace.Meta, error) {
		n, err := e.Get(e.ctx, "a")
		return n.Meta, err
	}
	widget := func(e *env) (namespace.Meta, error) {
		o, err := e.content(widgets).Get(e.ctx, "x", "a")
		return o.Meta, err
	}
	create := func(e *env) { e.create("a") }
	put := func(e *env) { e.put(widgets, "x", object("a")) }
	return []removal{
		{"finalize", func(e *env) {
			e.create("a")
			e.terminate("a")
		}, func(e *env) (namespace.Meta, error) {
			n, err := e.Finalize(e.ctx, named("a"))
			return n.Meta, err
		}, space, create},
		{"update namespace", func(e *env) {
			n := named("a")
			n.Finalizers = object("", "example.com/f").Finalizers
			_, err := e.Create(e.ctx, n)
			require.NoError(e.t, err)
			e.release("a")
			e.terminate("a")
		}, func(e *env) (namespace.Meta, error) {
			n, err := e.Update(e.ctx, named("a"))
			return n.Meta, err
		}, space, create},
		{"delete namespace", func(e *env) {
			e.create("a")
			e.release("a")
		}, func(e *env) (namespace.Meta, error) {
			n, err := e.Delete(e.ctx, "a", anyVersion)
			return n.Meta, err
		}, space, create},
		{"update content", func(e *env) {
			e.put(widgets, "x", object("a", "example.com/f"))
			_, err := e.content(widgets).Delete(e.ctx, "x", "a", anyVersion)
			require.NoError(e.t, err)
		}, func(e *env) (namespace.Meta, error) {
			o, err := e.content(widgets).Update(e.ctx, "x", object("a"))
			return o.Meta, err
		}, widget, put},
		{"delete content", put, func(e *env) (namespace.Meta, error) {
			o, err := e.content(widgets).Delete(e.ctx, "x", "a", anyVersion)
			return o.Meta, err
		}, widget, put},
	}
}

// A removal of unknown outcome was carried out if that incarnation is gone. It is
// answered with the version that was removed, never with one of the next incarnation.
func TestRemovalsOfUnknownOutcome(t *testing.T) {
	for _, r := range removals() {
		for _, landing := range []bool{true, false} {
			for _, again := range []bool{false, true} {
				name := r.name + map[bool]string{true: "/landed", false: "/by another"}[landing] + map[bool]string{true: "/recreated"}[again]
				t.Run(name, func(t *testing.T) {
					e, other, s := doubtfulEnv(t)
					other.create("x")
					r.prepare(other)
					before, err := r.get(other)
					require.NoError(t, err)
					s.armed, s.lands = true, landing
					s.then = func() {
						if !landing {
							_, err := r.remove(other)
							require.NoError(t, err)
						}
						if again {
							r.recreate(other)
						}
					}
					removed, err := r.remove(e)
					require.NoError(t, err)
					require.Equal(t, before.UID, removed.UID)
					require.Equal(t, before.ResourceVersion, removed.ResourceVersion, "the version that was read")
					now, err := r.get(other)
					if !again {
						require.ErrorIs(t, err, namespace.ErrNotFound)
						return
					}
					require.NoError(t, err, "the next incarnation stays")
					require.NotEqual(t, before.UID, now.UID)
				})
			}
		}
		t.Run(r.name+"/changed", func(t *testing.T) {
			e, other, s := doubtfulEnv(t)
			other.create("x")
			r.prepare(other)
			s.armed, s.then = true, func() {
				entry, err := other.store.Get(e.ctx, s.kept.Do[0].Key)
				require.NoError(t, err)
				_, err = other.store.Commit(e.ctx, store.Txn{Do: []store.Operation{store.Put(entry.Key, entry.Value)}})
				require.NoError(t, err)
			}
			_, err := r.remove(e)
			require.NoError(t, err, "the first commit can not have landed: there is another attempt")
			_, err = r.get(other)
			require.ErrorIs(t, err, namespace.ErrNotFound)
		})
	}
}

// A replacement of unknown outcome is certain only if the entry is found as written, or
// as before.
func TestReplacementsOfUnknownOutcome(t *testing.T) {
	labelled := func(n namespace.Namespace, value string) namespace.Namespace {
		n.Labels = map[string]string{"by": value}
		return n
	}
	status := named("a")
	status.Status.Conditions = []phase.Condition{{Type: phase.ContentRemaining, Status: phase.True}}
	for what, replace := range map[string]func(e *env) (namespace.Namespace, error){
		"update":   func(e *env) (namespace.Namespace, error) { return e.Update(e.ctx, labelled(named("a"), "me")) },
		"status":   func(e *env) (namespace.Namespace, error) { return e.UpdateStatus(e.ctx, status) },
		"finalize": func(e *env) (namespace.Namespace, error) { return e.Finalize(e.ctx, named("a", "example.com/agent")) },
	} {
		for _, row := range []struct {
			name  string
			lands bool
			then  func(other *env)
			known bool
		}{
			{"landed", true, func(*env) {}, true},
			{"not landed", false, func(*env) {}, true},
			{"landed, changed", true, func(e *env) { _, _ = e.Update(e.ctx, labelled(named("a"), "another")) }, false},
			{"not landed, changed", false, func(e *env) { _, _ = e.Update(e.ctx, labelled(named("a"), "another")) }, false},
			{"landed, removed", true, func(e *env) { e.remove("a") }, false},
			{"landed, recreated", true, func(e *env) {
				e.remove("a")
				e.create("a")
			}, false},
		} {
			t.Run(what+"/"+row.name, func(t *testing.T) {
				e, other, s := doubtfulEnv(t)
				other.create("a")
				s.armed, s.lands, s.then = true, row.lands, func() { row.then(other) }
				n, err := replace(e)
				if !row.known {
					require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
					return
				}
				require.NoError(t, err)
				require.Equal(t, other.get("a"), n)
			})
		}
	}
}

// submitted is a commit of the registry under test, and the fate of it.
type submitted struct {
	txn         store.Txn
	landed      bool
	incarnation string // the uid of the namespace that a create was sent to; empty: no create
}

// adrift is a store whose commits land, are lost, or land at any later time, with or
// without an answer, while other writers are at work.
type adrift struct {
	store.Store
	t       *testing.T
	rnd     *rand.Rand
	others  func() // lets another writer do something
	commits []*submitted
	afloat  []*submitted // not landed yet, and not lost
	kinds   map[string]int
}

func (s *adrift) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	c := &submitted{txn: txn, incarnation: s.incarnation(txn)}
	s.commits = append(s.commits, c)
	s.meanwhile()
	unknown := &store.Error{Op: "commit", Err: store.ErrUnknownOutcome}
	switch s.rnd.IntN(6) {
	case 0:
		s.kinds["lost"]++
		s.meanwhile()
		return 0, unknown
	case 1, 2:
		s.kinds["late"]++
		s.afloat = append(s.afloat, c)
		s.meanwhile()
		return 0, unknown
	case 3:
		if _, err := s.land(c); err != nil {
			return 0, err
		}
		s.kinds["landed"]++
		s.meanwhile()
		return 0, unknown
	}
	return s.land(c)
}

func (s *adrift) land(c *submitted) (store.Revision, error) {
	incarnation := s.incarnation(c.txn)
	revision, err := s.Store.Commit(context.WithoutCancel(s.t.Context()), c.txn)
	if err == nil {
		require.Equal(s.t, c.incarnation, incarnation, "a create landed in another incarnation")
		c.landed = true
	}
	return revision, err
}

// meanwhile lets other writers run, and delayed commits land.
func (s *adrift) meanwhile() {
	for range s.rnd.IntN(4) {
		if i := s.rnd.IntN(len(s.afloat) + 2); i < len(s.afloat) {
			c := s.afloat[i]
			s.afloat = append(s.afloat[:i:i], s.afloat[i+1:]...)
			if _, err := s.land(c); err == nil {
				s.kinds["landed late"]++
			}
			continue
		}
		s.others()
	}
}

// incarnation returns the uid of the namespace that a create of content is sent to.
func (s *adrift) incarnation(txn store.Txn) string {
	for _, c := range txn.If {
		var ns, name string
		if n, _ := fmt.Sscanf(c.Key, "/registry/widgets.example.com/%2s/%s", &ns, &name); n == 2 && c.Want == store.WantAbsent {
			if e, err := s.Get(s.t.Context(), "/registry/.gate/"+ns); err == nil {
				return string(e.Value)
			}
		}
	}
	return ""
}

// answer is the answer to one request.
type answer struct {
	meta    namespace.Meta
	removed bool
	key     string
	create  bool
	err     error
	commits []*submitted
}

// Any answer except an unknown outcome is true and stays true, regardless of the store's
// faults and of other writers: a request that succeeds was carried out once, and one that
// fails was not and never will be.
func TestAnswersAreTrue(t *testing.T) {
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
			s := &adrift{Store: m, t: t, rnd: rnd, others: func() { _ = randomRequest(other, rnd, 0) }, kinds: kinds}
			e := newEnvOver(t, s)
			for _, ns := range []string{"n0", "n1"} {
				other.create(ns)
			}
			start := now(t, m)
			var answers []answer
			for i := range 40 {
				begin := len(s.commits)
				a := randomRequest(e, rnd, i+1)
				a.commits = s.commits[begin:]
				requireTrue(t, m, a, kinds)
				answers = append(answers, a)
				s.meanwhile()
			}
			for len(s.afloat) > 0 {
				s.meanwhile()
			}
			for _, a := range answers {
				requireSettled(t, a)
			}
			require.NoError(t, registrytest.Audit(context.WithoutCancel(t.Context()), m, "registry", start, now(t, m).Revision))
		})
	}
	for _, kind := range []string{"lost", "late", "landed", "landed late", "success", "removed", "refused", "unknown"} {
		require.NotZero(t, kinds[kind], kind)
	}
}

// requireTrue holds an answer against the store at the time of the answer.
func requireTrue(t *testing.T, s store.Store, a answer, kinds map[string]int) {
	requireSettled(t, a)
	switch {
	case errors.Is(a.err, namespace.ErrUnknownOutcome):
		kinds["unknown"]++
		return
	case a.err != nil:
		kinds["refused"]++
		return
	}
	kinds["success"]++
	q := store.Query{Prefix: a.key}
	if !a.removed { // it is, or was, as answered
		revision, err := strconv.ParseInt(a.meta.ResourceVersion, 10, 64)
		require.NoError(t, err)
		q.At.Revision = store.Revision(revision)
	}
	page, err := s.List(t.Context(), q)
	require.NoError(t, err)
	is := ""
	if len(page.Entries) > 0 {
		var o registry.Object
		require.NoError(t, json.Unmarshal(page.Entries[0].Value, &o))
		if is = o.UID; !a.removed {
			require.Equal(t, q.At.Revision, page.Entries[0].Revision)
		}
	}
	if a.removed {
		kinds["removed"]++
		require.NotEqual(t, a.meta.UID, is, "it was answered that this incarnation is gone")
		return
	}
	require.Equal(t, a.meta.UID, is)
}

// requireSettled holds an answer against the commits that were made for it, so far.
func requireSettled(t *testing.T, a answer) {
	landed := 0
	for _, c := range a.commits {
		if c.landed {
			landed++
		}
	}
	require.LessOrEqual(t, landed, 1, "it was carried out twice: %+v", a)
	switch {
	case errors.Is(a.err, namespace.ErrUnknownOutcome):
	case a.err != nil:
		require.Zero(t, landed, "it was refused, and carried out: %v", a.err)
	case a.create:
		require.Equal(t, 1, landed, "it was answered as created")
	}
}

// randomRequest makes one request. The request writes its number, if it has one.
func randomRequest(e *env, rnd *rand.Rand, n int) answer {
	ns := fmt.Sprint("n", rnd.IntN(2))
	name := fmt.Sprint("o", rnd.IntN(2))
	label := map[string]string{"request": fmt.Sprint(n)}
	held := finalizer.Set{}
	if rnd.IntN(3) == 0 {
		held = finalizer.NewSet("example.com/f")
	}
	w := e.content(widgets)
	var o registry.Object
	var space namespace.Namespace
	var err error
	kind := rnd.IntN(9)
	switch kind {
	case 0:
		space = named(ns)
		space.Labels = label
		space, err = e.Create(e.ctx, space)
	case 1:
		space = named(ns)
		space.Labels, space.Finalizers = label, held
		space, err = e.Update(e.ctx, space)
	case 2, 3: // as a party that has seen it empty
		if space, err = e.Get(e.ctx, ns); err != nil {
			break
		}
		list, failed := w.List(e.ctx, ns, registry.ListOptions{})
		require.NoError(e.t, failed)
		if space.DeletionTimestamp.IsZero() || len(list.Items) > 0 {
			err = namespace.ErrConflict
			break
		}
		space.Spec.Finalizers = finalizer.Set{}
		space, err = e.Finalize(e.ctx, space)
	case 4:
		space, err = e.Delete(e.ctx, ns, anyVersion)
	case 5, 6:
		o = object(name)
		o.Labels, o.Finalizers = label, held
		o, err = w.Create(e.ctx, ns, o)
	case 7:
		o = object(name)
		o.Labels, o.Finalizers = label, held
		o, err = w.Update(e.ctx, ns, o)
	default:
		o, err = w.Delete(e.ctx, ns, name, anyVersion)
	}
	a := answer{err: err, create: kind == 0 || kind == 5 || kind == 6}
	if kind < 5 {
		a.key, a.meta, a.removed = "/registry/namespaces/"+ns, space.Meta, namespace.Removable(space)
	} else {
		a.key, a.meta = "/registry/widgets.example.com/"+ns+"/"+name, o.Meta
		a.removed = kind == 8 && o.Finalizers.IsZero() || !o.DeletionTimestamp.IsZero() && o.Finalizers.IsZero()
	}
	return a
}

// operation is one write, and how to see that it was made. Before it there are
// the Active namespaces x (with widgets a, b and held) and bare (held by
// nothing), and the terminating dying (held by the default finalizer) with the
// widgets a and marked (being deleted, held).
type operation struct {
	name string
	do   func(e *env) error
	done func(e *env) bool
}

// under carries out the operation while a kind of fault strikes the first n commits, and
// reports whether it was made: always, but for a create whose commit was lost.
func (op operation) under(e *env, plan *atomic.Pointer[storetest.Plan], kind storetest.Kind, n int64) bool {
	require.False(e.t, op.done(e))
	plan.Store(commits(kind, n))
	err := op.do(e)
	plan.Store(nil)
	made := kind != storetest.Lost || !strings.HasPrefix(op.name, "create")
	if made {
		require.NoError(e.t, err)
	} else {
		require.ErrorIs(e.t, err, namespace.ErrUnknownOutcome)
	}
	require.Equal(e.t, made, op.done(e))
	return made
}

func (e *env) prepare() namespace.Namespace {
	e.create("x")
	e.create("bare")
	e.release("bare")
	e.create("dying", "example.com/agent")
	for _, o := range []registry.Object{object("a"), object("b"), object("held", "example.com/f")} {
		e.put(widgets, "x", o)
	}
	e.put(widgets, "dying", object("a"))
	e.put(widgets, "dying", object("marked", "example.com/f"))
	_, err := e.content(widgets).Delete(e.ctx, "dying", "marked", anyVersion)
	require.NoError(e.t, err)
	return e.terminate("dying")
}

func (e *env) has(name string) bool {
	_, err := e.Get(e.ctx, name)
	return err == nil
}

func (e *env) hasWidget(ns, name string) bool {
	_, err := e.content(widgets).Get(e.ctx, ns, name)
	return err == nil
}

func (e *env) get(name string) namespace.Namespace {
	n, err := e.Get(e.ctx, name)
	require.NoError(e.t, err)
	return n
}

func (e *env) source() interface {
	deleter.Content
	deleter.CollectionDeleter
} {
	sources, err := e.Sources(widgets)
	require.NoError(e.t, err)
	return sources[0].Content.(interface {
		deleter.Content
		deleter.CollectionDeleter
	})
}

func operations() []operation {
	return append(namespaceOperations(), contentOperations()...)
}

func namespaceOperations() []operation {
	status := named("dying")
	status.Status.Conditions = []phase.Condition{{Type: phase.ContentRemaining, Status: phase.True}}
	annotated := named("x")
	annotated.Annotations = map[string]string{"a": "b"}
	return []operation{
		{"create", func(e *env) error {
			n, err := e.Create(e.ctx, named("new"))
			if err == nil && n.UID != e.get("new").UID {
				err = errors.New("it answered another uid than is stored")
			}
			return err
		}, func(e *env) bool { return e.has("new") }},
		{"create generated", func(e *env) error {
			_, err := e.Create(e.ctx, namespace.Namespace{Meta: namespace.Meta{GenerateName: "new-"}})
			return err
		}, func(e *env) bool {
			list, err := e.List(e.ctx, registry.ListOptions{})
			return err == nil && len(list.Items) == 4
		}},
		{"update", func(e *env) error {
			n, err := e.Update(e.ctx, annotated)
			if err == nil && n.ResourceVersion != e.get("x").ResourceVersion {
				err = errors.New("it answered another version than is stored")
			}
			return err
		}, func(e *env) bool { return e.get("x").Annotations["a"] == "b" }},
		{"update status", func(e *env) error {
			_, err := e.UpdateStatus(e.ctx, status)
			return err
		}, func(e *env) bool { return len(e.get("dying").Status.Conditions) == 1 }},
		{"finalize", func(e *env) error {
			_, err := e.Finalize(e.ctx, named("dying", "example.com/agent"))
			return err
		}, func(e *env) bool { return e.get("dying").Spec.Finalizers.Len() == 1 }},
		{"delete", func(e *env) error {
			n, err := e.Delete(e.ctx, "x", anyVersion)
			if err == nil && n.Phase() != phase.Terminating {
				err = errors.New("it answered an active namespace")
			}
			return err
		}, func(e *env) bool { return e.get("x").Phase() == phase.Terminating }},
		{"delete and remove", func(e *env) error {
			_, err := e.Delete(e.ctx, "bare", anyVersion)
			return err
		}, func(e *env) bool { return !e.has("bare") }},
	}
}

func contentOperations() []operation {
	changed := object("a")
	changed.Labels = map[string]string{"a": "b"}
	return []operation{
		{"create content", func(e *env) error {
			_, err := e.content(widgets).Create(e.ctx, "x", object("new"))
			return err
		}, func(e *env) bool { return e.hasWidget("x", "new") }},
		{"update content", func(e *env) error {
			_, err := e.content(widgets).Update(e.ctx, "x", changed)
			return err
		}, func(e *env) bool {
			o, err := e.content(widgets).Get(e.ctx, "x", "a")
			return err == nil && o.Labels["a"] == "b"
		}},
		{"delete content", func(e *env) error {
			_, err := e.content(widgets).Delete(e.ctx, "x", "a", anyVersion)
			return err
		}, func(e *env) bool { return !e.hasWidget("x", "a") }},
		{"mark content", func(e *env) error {
			_, err := e.content(widgets).Delete(e.ctx, "x", "held", anyVersion)
			return err
		}, func(e *env) bool {
			o, err := e.content(widgets).Get(e.ctx, "x", "held")
			return err == nil && !o.DeletionTimestamp.IsZero()
		}},
		{"release content", func(e *env) error {
			_, err := e.content(widgets).Update(e.ctx, "dying", object("marked"))
			return err
		}, func(e *env) bool { return !e.hasWidget("dying", "marked") }},
		{"delete collection", func(e *env) error {
			done, err := e.content(widgets).DeleteCollection(e.ctx, "x", labels(e.t, ""), fields(e.t, ""))
			if err == nil && done != (registry.Deletion{Deleted: 2, Marked: 1}) {
				err = fmt.Errorf("it counted %+v", done)
			}
			return err
		}, func(e *env) bool { return !e.hasWidget("x", "a") && !e.hasWidget("x", "b") }},
		{"pass deletes", func(e *env) error {
			return e.source().Delete(e.ctx, targetOf(e.get("dying")), "a", "")
		}, func(e *env) bool { return !e.hasWidget("dying", "a") }},
		{"pass deletes collection", func(e *env) error {
			n, _, err := e.source().DeleteCollection(e.ctx, targetOf(e.get("dying")))
			if err == nil && n != 1 {
				err = fmt.Errorf("it counted %d", n)
			}
			return err
		}, func(e *env) bool { return !e.hasWidget("dying", "a") }},
	}
}

// faultyEnv is an env whose store goes wrong by a plan that can be set.
func faultyEnv(t *testing.T) (*env, *atomic.Pointer[storetest.Plan], *storetest.Faulty) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var plan atomic.Pointer[storetest.Plan]
	faulty, err := storetest.Inject(s, func(a storetest.Attempt) storetest.Fault {
		if p := plan.Load(); p != nil {
			return (*p)(a)
		}
		return storetest.Fault{}
	})
	require.NoError(t, err)
	e := newEnvOver(t, faulty)
	t.Cleanup(func() { plan.Store(nil) })
	return e, &plan, faulty
}

// commits is a plan that lets something happen to the first n commits; zero: to all.
func commits(kind storetest.Kind, n int64) *storetest.Plan {
	var seen atomic.Int64
	p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
		if a.Method != "commit" || n > 0 && seen.Add(1) > n {
			return storetest.Fault{}
		}
		return storetest.Fault{Kind: kind}
	})
	return &p
}

// Every write under every fault of the first commits: it is made exactly once, and
// says so; a create of unknown outcome is not repeated.
func TestWritesUnderFaults(t *testing.T) {
	for _, op := range operations() {
		for _, kind := range []storetest.Kind{storetest.None, storetest.Lost, storetest.Landed, storetest.Conflict} {
			for _, n := range []int64{1, 3} {
				t.Run(fmt.Sprintf("%s/%s %d", op.name, kind, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e, plan, faulty := faultyEnv(t)
						e.prepare()
						start := now(t, faulty.Unwrap())
						op.under(e, plan, kind, n)
						require.NoError(t, registrytest.Audit(e.ctx, faulty.Unwrap(), "registry", start, e.revision()))
					})
				})
			}
		}
	}
}

// A write whose outcome cannot be learnt says so after a bounded number of
// attempts; one that fails plainly changes nothing.
func TestWritesThatCannotBeMade(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plan, _ := faultyEnv(t)
				e.prepare()
				before := e.revision()
				plan.Store(commits(storetest.Lost, 0))
				err := op.do(e)
				require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
				require.ErrorIs(t, err, store.ErrUnknownOutcome, "the cause is in the chain")
				plan.Store(commits(storetest.Fail, 0))
				err = op.do(e)
				require.ErrorIs(t, err, storetest.ErrInjected)
				require.NotErrorIs(t, err, namespace.ErrUnknownOutcome)
				plan.Store(nil)
				require.False(t, op.done(e))
				require.Equal(t, before, e.revision())
			})
		})
	}
}

// When reading back fails too, the outcome stays unknown.
func TestReadBackFails(t *testing.T) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plan, _ := faultyEnv(t)
				e.prepare()
				var committed atomic.Bool
				p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
					switch {
					case a.Method == "commit":
						committed.Store(true)
						return storetest.Fault{Kind: storetest.Landed}
					case committed.Load():
						return storetest.Fault{Kind: storetest.Fail}
					}
					return storetest.Fault{}
				})
				plan.Store(&p)
				err := op.do(e)
				plan.Store(nil)
				require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
				require.True(t, op.done(e))
			})
		})
	}
}

// overwriting lands a commit, overwrites its key, and reports an unknown outcome.
type overwriting struct {
	store.Store
	key  string
	done bool
}

func (o *overwriting) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	revision, err := o.Store.Commit(ctx, txn)
	if err != nil || o.done || o.key == "" {
		return revision, err
	}
	o.done = true
	entry, err := o.Get(ctx, o.key)
	if err == nil {
		value, wrong := registrytest.Value(bytes.Replace(entry.Value, []byte(`"metadata":{`), []byte(`"metadata":{"selfLink":"/other",`), 1))
		_, err = o.Store.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(o.key, value)}})
		err = errors.Join(err, wrong)
	}
	return 0, &store.Error{Op: "commit", Err: errors.Join(store.ErrUnknownOutcome, err)}
}

// A write that landed and was overwritten is indistinguishable from one that did not land.
func TestOverwrittenWrite(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	o := &overwriting{Store: s}
	e := newEnvOver(t, o)
	e.prepare()
	annotated := named("x")
	annotated.Annotations = map[string]string{"a": "b"}
	o.key = "/registry/namespaces/x"
	_, err = e.Update(e.ctx, annotated)
	require.ErrorIs(t, err, namespace.ErrUnknownOutcome)
	o.key, o.done = "/registry/widgets.example.com/x/new", false
	made, err := e.content(widgets).Create(e.ctx, "x", object("new"))
	require.NoError(t, err, "a creation is known by its uid")
	require.Equal(t, fmt.Sprint(e.revision()), made.ResourceVersion)
}

// A context that ends while the outcome is unknown ends the attempts.
func TestContextEndsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plan, _ := faultyEnv(t)
		e.prepare()
		for _, op := range operations() {
			plan.Store(nil)
			if op.done(e) {
				continue
			}
			ctx, cancel := context.WithCancel(e.ctx)
			committed := false
			p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
				switch {
				case a.Method == "commit":
					committed = true
					return storetest.Fault{Kind: storetest.Lost}
				case committed:
					cancel() // before it is read back
				}
				return storetest.Fault{}
			})
			plan.Store(&p)
			limited := *e
			limited.ctx = ctx
			require.ErrorIs(t, op.do(&limited), namespace.ErrUnknownOutcome, op.name)
			cancel()
		}
		plan.Store(nil)
	})
}

// Random operations under random faults leave nothing that breaks a rule, at any
// revision.
func TestRandomOperationsUnderFaults(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	injected := map[storetest.Kind]int{}
	for round := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, round))
			e, plan, faulty := faultyEnv(t)
			e.create("first")
			start := now(t, faulty.Unwrap())
			kinds := []storetest.Kind{storetest.Lost, storetest.Landed, storetest.Conflict, storetest.Fail}
			p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
				if n := rnd.IntN(12); n < len(kinds) {
					return storetest.Fault{Kind: kinds[n]}
				}
				return storetest.Fault{}
			})
			plan.Store(&p)
			for range 150 {
				randomOperation(e, rnd)
			}
			plan.Store(nil)
			require.NoError(t, registrytest.Audit(e.ctx, faulty.Unwrap(), "registry", start, e.revision()))
			for kind, n := range faulty.Injected() {
				injected[kind] += n
			}
		})
	}
	require.Len(t, injected, 4, "every kind of fault must have struck")
}

// randomOperation does something that keeps to the rules, as a client or as a
// pass. Refusals and failures are fine.
func randomOperation(e *env, rnd *rand.Rand) {
	ns := fmt.Sprint("n", rnd.IntN(3))
	name := fmt.Sprint("o", rnd.IntN(3))
	w := e.content(widgets)
	switch rnd.IntN(10) {
	case 0:
		_, _ = e.Create(e.ctx, named(ns, "example.com/agent"))
	case 1, 2, 3:
		held := object(name)
		if rnd.IntN(2) == 0 {
			held.Finalizers = finalizer.NewSet("example.com/f")
		}
		_, _ = w.Create(e.ctx, ns, held)
	case 4:
		_, _ = w.Update(e.ctx, ns, object(name))
	case 5:
		_, _ = w.Delete(e.ctx, ns, name, anyVersion)
	case 6:
		_, _ = e.Delete(e.ctx, ns, anyVersion)
	case 7:
		_, _ = w.DeleteCollection(e.ctx, ns, labels(e.t, ""), fields(e.t, ""))
	default:
		n, err := e.Get(e.ctx, ns)
		if err != nil || n.Phase() == phase.Active {
			return
		}
		if _, _, err := e.source().DeleteCollection(e.ctx, targetOf(n)); err != nil {
			return
		}
		if page, err := e.source().List(e.ctx, targetOf(n), 0, ""); err != nil || len(page.Items) > 0 {
			return
		}
		n.Spec.Finalizers = finalizer.Set{}
		_, _ = e.Finalize(e.ctx, n)
	}
}

// GateKeys returns the keys that the registry itself writes.
func TestR6_GateKeysAreWhereTheGateIs(t *testing.T) {
	e := newEnv(t)
	gate, terminating, err := registry.GateKeys("", "acme")
	require.NoError(t, err)
	n := e.create("acme")
	entry, err := e.store.Get(e.ctx, gate)
	require.NoError(t, err)
	require.Equal(t, n.UID, string(entry.Value))
	_, err = e.store.Get(e.ctx, terminating)
	require.ErrorIs(t, err, store.ErrNotFound)

	e.terminate("acme")
	_, err = e.store.Get(e.ctx, gate)
	require.ErrorIs(t, err, store.ErrNotFound)
	entry, err = e.store.Get(e.ctx, terminating)
	require.NoError(t, err)
	require.Equal(t, n.UID, string(entry.Value))

	named, _, err := registry.GateKeys("a/b", "acme")
	require.NoError(t, err)
	require.Equal(t, "/a/b/.gate/acme", named)
}

func TestBadInputOfGateKeys(t *testing.T) {
	for _, tt := range []struct {
		prefix, name string
		want         error
	}{
		{"/", "acme", namespace.ErrInvalid},
		{"a//b", "acme", namespace.ErrInvalid},
		{"..", "acme", namespace.ErrInvalid},
		{"\xff", "acme", namespace.ErrInvalid},
		{strings.Repeat("p", 254), "acme", namespace.ErrInvalid},
		{"", "", namespace.ErrBadRequest},
		{"", "..", namespace.ErrBadRequest},
		{"", "a/b", namespace.ErrBadRequest},
		{"", "a\x00", namespace.ErrBadRequest},
		{"", strings.Repeat("n", 254), namespace.ErrBadRequest},
	} {
		_, _, err := registry.GateKeys(tt.prefix, tt.name)
		require.ErrorIs(t, err, tt.want, "prefix %.10q name %.10q", tt.prefix, tt.name)
	}
}

// A store that cannot be reached, or is full, fails every call with a kind of its own.
func TestUnavailableStore(t *testing.T) {
	for _, cause := range []error{store.ErrUnavailable, store.ErrFull} {
		for _, op := range operations() {
			t.Run(op.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e, plan, _ := faultyEnv(t)
					e.prepare()
					failing := func(reads bool) {
						p := storetest.Plan(func(a storetest.Attempt) storetest.Fault {
							if !reads && a.Method != "commit" {
								return storetest.Fault{}
							}
							return storetest.Fault{Kind: storetest.Fail, Err: cause}
						})
						plan.Store(&p)
					}
					unavailable := func(err error) {
						t.Helper()
						require.ErrorIs(t, err, namespace.ErrUnavailable)
						require.ErrorIs(t, err, cause)
						require.NotErrorIs(t, err, namespace.ErrUnknownOutcome)
					}
					failing(false)
					unavailable(op.do(e))
					failing(true)
					_, err := e.Get(e.ctx, "x")
					unavailable(err)
					_, err = e.List(e.ctx, registry.ListOptions{})
					unavailable(err)
					for _, err := range e.Watch(e.ctx, registry.WatchOptions{}) {
						unavailable(err)
					}
					plan.Store(nil)
					require.False(t, op.done(e))
				})
			})
		}
	}
}
