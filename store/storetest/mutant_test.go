package storetest

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/stretchr/testify/require"
)

// mutant is the memory driver with one broken promise. It proves that the case for the promise can
// fail.
type mutant struct {
	of     string // the case that must fail
	broken string // the defect
	says   string // part of the failure, so that the case fails for the right reason
	hangs  bool   // the case fails at its deadline
	mutate func(m *memory.Store, b *Backend, s *mutated)
}

// mutated is a memory store with some methods replaced.
type mutated struct {
	*memory.Store
	get     func(context.Context, string) (store.Entry, error)
	list    func(context.Context, store.Query) (store.Page, error)
	commit  func(context.Context, store.Txn) (store.Revision, error)
	watch   func(context.Context, string, store.Position) iter.Seq2[store.Change, error]
	count   func(context.Context, store.Query) (int, error)
	compact func(context.Context, store.Revision) error
	close   func() error
}

func (s *mutated) Get(ctx context.Context, key string) (store.Entry, error) {
	if s.get != nil {
		return s.get(ctx, key)
	}
	return s.Store.Get(ctx, key)
}

func (s *mutated) List(ctx context.Context, q store.Query) (store.Page, error) {
	if s.list != nil {
		return s.list(ctx, q)
	}
	return s.Store.List(ctx, q)
}

func (s *mutated) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if s.commit != nil {
		return s.commit(ctx, txn)
	}
	return s.Store.Commit(ctx, txn)
}

func (s *mutated) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	if s.watch != nil {
		return s.watch(ctx, prefix, after)
	}
	return s.Store.Watch(ctx, prefix, after)
}

func (s *mutated) Count(ctx context.Context, q store.Query) (int, error) {
	if s.count != nil {
		return s.count(ctx, q)
	}
	return s.Store.Count(ctx, q)
}

func (s *mutated) Compact(ctx context.Context, r store.Revision) error {
	if s.compact != nil {
		return s.compact(ctx, r)
	}
	return s.Store.Compact(ctx, r)
}

func (s *mutated) Close() error {
	if s.close != nil {
		return s.close()
	}
	return s.Store.Close()
}

func mutants() []mutant {
	return slices.Concat(commitMutants(), inputMutants(), readMutants(), countMutants(), watchMutants(), flowMutants(), limitMutants(), backlogMutants(), endMutants(), ruleMutants())
}

// TestEveryMutantFails runs each case against its mutants, in virtual time, so that a
// case that hangs reaches its deadline at once.
func TestEveryMutantFails(t *testing.T) {
	byName := map[string]testcase{}
	for _, c := range cases() {
		byName[c.name] = c
	}
	for _, mutant := range mutants() {
		t.Run(mutant.of+"/"+mutant.broken, func(t *testing.T) {
			c, ok := byName[mutant.of]
			require.True(t, ok, "there is no case %q", mutant.of)
			synctest.Test(t, func(t *testing.T) { mutant.fails(t, c) })
		})
	}
}

// TestEveryCasePassesInVirtualTime shows that mutants fail because of their mutation, and that the
// memory driver keeps the contract in virtual time too.
func TestEveryCasePassesInVirtualTime(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := openMemory(t)
				b.Slow = true // the small sizes
				if failures := c.try(b, b.deadline()); len(failures) > 0 {
					t.Error(c.report(failures))
				}
			})
		})
	}
}

// late matches the failure of a case that reached a time limit.
var late = errDeadline.Error() + "|" + errPatience.Error()

func (u mutant) fails(t *testing.T, c testcase) {
	b := openMemory(t)
	m := b.Store.(*memory.Store)
	s := &mutated{Store: m}
	b.Store = s
	u.mutate(m, &b, s)
	require.NoError(t, b.check())
	require.Empty(t, b.missing(c.needs))
	failures := strings.Join(c.try(b, b.deadline()), "\n")
	require.NotEmpty(t, failures, "the case passes although it is broken that %s", u.broken)
	require.Contains(t, failures, u.says, "the failure names another reason")
	if !u.hangs {
		require.NotRegexp(t, late, failures, "the case should notice at once")
	} else {
		require.Regexp(t, late, failures)
	}
	require.NoError(t, m.Close(), "calls that hang in the store end")
}

func TestEveryCaseHasAMutant(t *testing.T) {
	count := map[string]int{}
	for _, m := range mutants() {
		count[m.of]++
		require.NotEmpty(t, m.says, "the failure when %s", m.broken)
	}
	for _, c := range cases() {
		require.Positive(t, count[c.name], "the case %q has no mutant: nothing shows that it can fail", c.name)
	}
}

func TestCasesAreExplained(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cases() {
		require.False(t, names[c.name], "two cases are named %q", c.name)
		names[c.name] = true
		require.NotEmpty(t, c.want, c.name)
		require.NotEmpty(t, c.why, c.name)
		require.NotNil(t, c.run, c.name)
	}
}
