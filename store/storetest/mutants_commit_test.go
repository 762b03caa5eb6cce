package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// on returns a Commit that changes each transaction first.
func on(m *memory.Store, change func(context.Context, *store.Txn)) func(context.Context, store.Txn) (store.Revision, error) {
	return func(ctx context.Context, txn store.Txn) (store.Revision, error) {
		txn.If, txn.Do = slices.Clone(txn.If), slices.Clone(txn.Do)
		change(ctx, &txn)
		return m.Commit(ctx, txn)
	}
}

// current returns the entry at key, or nil.
func current(m *memory.Store, key string) *store.Entry {
	e, err := m.Get(context.Background(), key)
	if err != nil {
		return nil
	}
	return &e
}

func conflictOf(c store.Condition, current *store.Entry) error {
	return &store.Error{Op: "commit", Key: c.Key, Err: &store.ConflictError{Condition: c, Current: current}}
}

func atMeansExists(_ context.Context, txn *store.Txn) {
	for i, c := range txn.If {
		if c.Want == store.WantRevision {
			txn.If[i] = store.Exists(c.Key)
		}
	}
}

func commitMutants() []mutant {
	return []mutant{
		{of: "create conflict carries current", broken: "a conflict carries nothing", says: "the current entry in the error", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
					err = conflictOf(conflict.Condition, nil)
				}
				return r, err
			}
		}},
		{of: "stale update refused", broken: "At means Exists", says: "answered revision", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, atMeansExists)
		}},
		{of: "recreated key gets a new revision", broken: "a recreated key shows its first revision", says: `Get("k")`, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			first := map[string]store.Revision{}
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				for _, op := range txn.Do {
					if _, ok := first[op.Key]; !ok {
						first[op.Key] = r
					}
				}
				return r, err
			}
			s.get = func(ctx context.Context, key string) (store.Entry, error) {
				e, err := m.Get(ctx, key)
				e.Revision = first[key]
				return e, err
			}
		}},
		{of: "all or nothing", broken: "a refused transaction applies its first operation", says: `Get("kept")`, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				if errors.Is(err, store.ErrConflict) && len(txn.Do) > 0 {
					_, _ = m.Commit(ctx, store.Txn{Do: txn.Do[:1]})
				}
				return r, err
			}
		}},
		{of: "all or nothing", broken: "each operation gets a revision of its own", says: `Get("kept")`, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, store.Txn{If: txn.If})
				for _, op := range txn.Do {
					if err == nil {
						r, err = m.Commit(ctx, store.Txn{Do: []store.Operation{op}})
					}
				}
				return r, err
			}
		}},
		{of: "conditions hold exactly", broken: "Exists holds for the beginning of a key", says: "answered revision", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(ctx context.Context, txn *store.Txn) {
				for i, c := range txn.If {
					if p, err := m.List(ctx, store.Query{Prefix: c.Key, Limit: 1}); err == nil && c.Want == store.WantExists && len(p.Entries) > 0 {
						txn.If[i].Key = p.Entries[0].Key
					}
				}
			})
		}},
		{of: "conditions hold exactly", broken: "At holds for every revision up to its own", says: "answered revision", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				for i, c := range txn.If {
					if e := current(m, c.Key); c.Want == store.WantRevision && e != nil && e.Revision < c.Revision {
						txn.If[i].Revision = e.Revision
					}
				}
			})
		}},
		{of: "first failing condition is reported", broken: "conditions are judged from the last", says: "the condition in the error", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) { slices.Reverse(txn.If) })
		}},
		{of: "conditions are evaluated before operations", broken: "conditions are judged after writing", says: "conflict", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, store.Txn{Do: txn.Do})
				for _, c := range txn.If {
					if e := current(m, c.Key); err == nil && !c.Holds(e) {
						return 0, conflictOf(c, e)
					}
				}
				return r, err
			}
		}},
		{of: "checked read changes nothing", broken: "an empty transaction makes a revision", says: "the answer of an empty transaction", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				if len(txn.Do) == 0 {
					txn.Do = []store.Operation{store.Put("tick", nil)}
				}
			})
		}},
		{of: "deletion of an absent key changes nothing", broken: "such a deletion makes a revision", says: "the answer to a deletion of an absent key", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(ctx context.Context, txn *store.Txn) {
				for _, op := range txn.Do {
					if op.Delete && current(m, op.Key) == nil {
						_, _ = m.Commit(ctx, store.Txn{Do: []store.Operation{store.Put(op.Key, nil)}})
					}
				}
			})
		}},
		{of: "deletion of an absent key changes nothing", broken: "such a deletion makes an event", says: "the events of a transaction", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(_ int, c store.Change) []store.Change {
				if !c.Bookmark() {
					c.Events = append([]store.Event{{Key: "x", Deleted: true}}, c.Events...)
				}
				return []store.Change{c}
			})
		}},
		{of: "given values are copied", broken: "the store keeps the caller's value", says: `Get("k")`, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			alias := map[string][]byte{}
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				for _, op := range txn.Do {
					alias[op.Key] = op.Value
				}
			})
			s.get = func(ctx context.Context, key string) (store.Entry, error) {
				e, err := m.Get(ctx, key)
				e.Value = alias[key]
				return e, err
			}
		}},
		{of: "given values are copied", broken: "the log keeps the caller's value", says: "the events", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			var alias []byte
			s.commit = on(m, func(_ context.Context, txn *store.Txn) { alias = txn.Do[0].Value })
			s.watch = changing(m, func(_ int, c store.Change) []store.Change {
				if !c.Bookmark() {
					c.Events = slices.Clone(c.Events)
					c.Events[0].Value = alias
				}
				return []store.Change{c}
			})
		}},
		{of: "revisions grow", broken: "a put of the same value is swallowed", says: "a put of the same value", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				txn.Do = slices.DeleteFunc(txn.Do, func(op store.Operation) bool {
					e := current(m, op.Key)
					return e != nil && !op.Delete && string(e.Value) == string(op.Value)
				})
			})
		}},
		{of: "revisions grow", broken: "compaction begins again at the first revision", says: "a put after compaction", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			offset := store.Revision(0)
			s.compact = func(_ context.Context, r store.Revision) error {
				offset = r
				return nil
			}
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				return r - offset, err
			}
		}},
	}
}

func inputMutants() []mutant {
	return []mutant{
		{of: "empty value is an entry", broken: "an empty value deletes", says: `Get("nil")`, mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				for i, op := range txn.Do {
					if len(op.Value) == 0 {
						txn.Do[i] = store.Delete(op.Key)
					}
				}
			})
		}},
		{of: "empty value is an entry", broken: "an event of an empty value says deleted", says: "the events of two empty puts", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.watch = changing(m, func(_ int, c store.Change) []store.Change {
				c.Events = slices.Clone(c.Events)
				for i := range c.Events {
					c.Events[i].Deleted = len(c.Events[i].Value) == 0
				}
				return []store.Change{c}
			})
		}},
		{of: "any bytes in keys and values", broken: "a value ends at its first zero byte", says: "the entries", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				for i, op := range txn.Do {
					before, _, _ := strings.Cut(string(op.Value), "\x00")
					txn.Do[i].Value = []byte(before)
				}
			})
		}},
		{of: "any bytes in keys and values", broken: "keys sort without regard to case", says: "not in the order of their bytes", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				p, err := m.List(ctx, q)
				slices.SortStableFunc(p.Entries, func(a, b store.Entry) int { return strings.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key)) })
				return p, err
			}
		}},
		{of: "any bytes in keys and values", broken: "the three parts of a key are joined without a separator", says: "the entries", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			first := map[string]string{}
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				for i, op := range txn.Do {
					if strings.Count(op.Key, "/") != 2 {
						continue
					}
					parts := strings.ReplaceAll(op.Key, "/", "")
					if first[parts] == "" {
						first[parts] = op.Key
					}
					txn.Do[i].Key = first[parts]
				}
			})
		}},
		{of: "long keys and values", broken: "values are cut at 64 KiB", says: "the long value came back", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				for i, op := range txn.Do {
					txn.Do[i].Value = op.Value[:min(len(op.Value), 64<<10)]
				}
			})
		}},
		{of: "oversize refused", broken: "a value too long is cut", says: "a key of one byte too many", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				for i, op := range txn.Do {
					txn.Do[i].Key = op.Key[:min(len(op.Key), m.Limits().Key)]
				}
			})
		}},
		{of: "oversize refused", broken: "a transaction too large is committed in two", says: "one operation too many", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				if most := m.Limits().Operations; len(txn.Do) > most {
					if _, err := m.Commit(ctx, store.Txn{If: txn.If, Do: txn.Do[:most]}); err != nil {
						return 0, err
					}
					txn = store.Txn{Do: txn.Do[most:]}
				}
				return m.Commit(ctx, txn)
			}
		}},
		{of: "invalid input changes nothing", broken: "of two operations on a key the last wins", says: "answered revision", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = on(m, func(_ context.Context, txn *store.Txn) {
				last := map[string]store.Operation{}
				for _, op := range txn.Do {
					last[op.Key] = op
				}
				txn.Do = slices.Collect(maps.Values(last))
			})
		}},
		{of: "invalid input changes nothing", broken: "a negative limit is no limit", says: "limit -1", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.list = func(ctx context.Context, q store.Query) (store.Page, error) {
				q.Limit = max(q.Limit, 0)
				return m.List(ctx, q)
			}
		}},
		{of: "ended context changes nothing", broken: "a commit does not look at its context", says: "Commit", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				return m.Commit(context.WithoutCancel(ctx), txn)
			}
		}},
		{of: "ended context changes nothing", broken: "a commit that was never submitted has an unknown outcome", says: "nothing was submitted", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				if ctx.Err() != nil {
					err = errors.Join(err, store.ErrUnknownOutcome)
				}
				return r, err
			}
		}},
		{of: "cancelled write is honest", broken: "a write that landed answers that its context ended", says: "which says that nothing happened", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				r, err := m.Commit(ctx, txn)
				if err == nil && len(txn.If) > 0 {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				return r, err
			}
		}},
		{of: "cancelled write is honest", broken: "a write that was given up answers nil", says: "its write is not there", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.commit = func(ctx context.Context, txn store.Txn) (store.Revision, error) {
				if len(txn.If) > 0 {
					<-ctx.Done()
				}
				r, err := m.Commit(ctx, txn)
				if ctx.Err() != nil {
					err = nil
				}
				return r, err
			}
		}},
		{of: "errors name operation and key", broken: "errors are bare", says: "an error of get", mutate: func(m *memory.Store, _ *Backend, s *mutated) {
			s.get = func(ctx context.Context, key string) (store.Entry, error) {
				e, err := m.Get(ctx, key)
				return e, errors.Unwrap(err)
			}
		}},
	}
}
