package registry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
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

// doubtfulEnv returns an env over a doubtful store, and that of another writer over the
// store below it.
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

// A creation of unknown outcome is certain only if the object is found. Absence, and
// another object of that name, tell nothing: it may have been made and deleted.
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
	require.Equal(t, 2, create("a"), "the gate and the type record")
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
	prepare  func(e *env) // what is removed
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
