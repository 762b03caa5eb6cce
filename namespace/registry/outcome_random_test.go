package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

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

// meanwhile lets others work, and commits land.
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

// An answer other than an unknown outcome is true, and stays true, whatever the store
// does with a commit and whatever others do: a request that succeeds was carried out
// once, and one that fails was not and never will be.
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

// randomRequest makes one request. Its number, if it has one, is in what it writes.
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
