package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/stretchr/testify/require"
)

// op returns a recorded call that took from call to end.
func op(client int, call, end int64, in input, out output) porcupine.Operation {
	if out.Unknown {
		end = math.MaxInt64
	}
	return porcupine.Operation{ClientId: client, Call: call, Return: end, Input: in, Output: out}
}

func commitOf(do store.Operation, conditions ...store.Condition) input {
	return input{Commit: &store.Txn{If: conditions, Do: []store.Operation{do}}}
}

func getOf(key, value string, r store.Revision) (input, output) {
	if r == 0 {
		return input{Get: key}, output{}
	}
	return input{Get: key}, output{Entry: ptr(entry(key, value, r))}
}

func TestCheck(t *testing.T) {
	put1, put2 := commitOf(store.Put("k", []byte("1"))), commitOf(store.Put("k", []byte("2")))
	get := func(client int, call, end int64, value string, r store.Revision) porcupine.Operation {
		in, out := getOf("k", value, r)
		return op(client, call, end, in, out)
	}
	conflict := func(c store.Condition, current *store.Entry) output {
		return output{Conflict: &store.ConflictError{Condition: c, Current: current}}
	}
	unknown := output{Unknown: true}
	for _, test := range []struct {
		name string
		ok   bool
		ops  []porcupine.Operation
	}{
		{"nothing", true, nil},
		{"read of a written value", true, []porcupine.Operation{op(0, 1, 2, put1, output{Revision: 5}), get(1, 3, 4, "1", 5)}},
		{"stale read", false, []porcupine.Operation{op(0, 1, 2, put1, output{Revision: 5}), get(1, 3, 4, "", 0)}},
		{"read during the write", true, []porcupine.Operation{op(0, 1, 4, put1, output{Revision: 5}), get(1, 2, 3, "", 0)}},
		{"seen, then not", false, []porcupine.Operation{op(0, 1, 9, put1, output{Revision: 5}), get(1, 2, 3, "1", 5), get(2, 4, 5, "", 0)}},
		{"wrong revision", false, []porcupine.Operation{op(0, 1, 2, put1, output{Revision: 5}), get(1, 3, 4, "1", 6)}},
		{"revision reused", false, []porcupine.Operation{op(0, 1, 2, put1, output{Revision: 5}), op(0, 3, 4, put2, output{Revision: 5})}},
		{"revision goes back", false, []porcupine.Operation{op(0, 1, 2, put1, output{Revision: 5}), op(0, 3, 4, put2, output{Revision: 4})}},
		{"true conflict", true, []porcupine.Operation{
			op(0, 1, 2, put1, output{Revision: 5}),
			op(0, 3, 4, commitOf(store.Put("x", nil), store.Absent("k")), conflict(store.Absent("k"), ptr(entry("k", "1", 5)))),
		}},
		{"false conflict", false, []porcupine.Operation{
			op(0, 1, 2, put1, output{Revision: 5}),
			op(0, 3, 4, commitOf(store.Put("x", nil), store.Exists("k")), conflict(store.Exists("k"), nil)),
		}},
		{"condition ignored", false, []porcupine.Operation{
			op(0, 1, 2, put1, output{Revision: 5}),
			op(0, 3, 4, commitOf(store.Put("x", nil), store.Absent("k")), output{Revision: 6}),
		}},
		{"write skew over two keys", false, []porcupine.Operation{
			op(0, 1, 4, commitOf(store.Put("a", []byte("1")), store.Absent("b")), output{Revision: 1}),
			op(1, 2, 3, commitOf(store.Put("b", []byte("1")), store.Absent("a")), output{Revision: 2}),
		}},
		{"unknown, landed", true, []porcupine.Operation{op(0, 1, 2, put1, unknown), get(1, 3, 4, "1", 5)}},
		{"unknown, lost", true, []porcupine.Operation{op(0, 1, 2, put1, unknown), get(1, 3, 4, "", 0), op(1, 5, 6, put2, output{Revision: 1}), get(1, 7, 8, "2", 1)}},
		{"unknown, landed late", true, []porcupine.Operation{op(0, 1, 2, put1, unknown), get(1, 3, 4, "", 0), get(1, 5, 6, "1", 5)}},
		{"unknown, landed and gone", false, []porcupine.Operation{op(0, 1, 2, put1, unknown), get(1, 3, 4, "1", 5), get(1, 5, 6, "", 0)}},
		{"unknown, landed twice", false, []porcupine.Operation{op(0, 1, 2, put1, unknown), get(1, 3, 4, "1", 5), op(1, 5, 6, put2, output{Revision: 6}), get(1, 7, 8, "1", 5)}},
		{"unknown deletion, landed", true, []porcupine.Operation{op(1, 1, 2, put1, output{Revision: 1}), op(0, 3, 4, commitOf(store.Delete("k")), unknown), get(1, 5, 6, "1", 1), get(1, 7, 8, "", 0)}},
		{"unknown before its call", false, []porcupine.Operation{get(1, 1, 2, "1", 5), op(0, 3, 4, put1, unknown)}},
		{"unknown under a condition that failed", false, []porcupine.Operation{
			op(0, 1, 2, commitOf(store.Put("k", []byte("1")), store.Exists("gate")), unknown), get(1, 3, 4, "1", 5),
		}},
		{"a revision that an unknown commit took", false, []porcupine.Operation{
			op(0, 1, 2, put1, unknown), get(1, 3, 4, "1", 5), op(1, 5, 6, put2, output{Revision: 5}),
		}},
		{"listing", true, []porcupine.Operation{
			op(0, 1, 2, put1, output{Revision: 5}),
			op(0, 3, 4, input{List: &store.Query{}}, output{Page: store.Page{Entries: []store.Entry{entry("k", "1", 5)}, Position: store.Position{Revision: 5}}}),
		}},
		{"listing says more", false, []porcupine.Operation{
			op(0, 1, 2, put1, output{Revision: 5}),
			op(0, 3, 4, input{List: &store.Query{Limit: 1}}, output{Page: store.Page{Entries: []store.Entry{entry("k", "1", 5)}, Position: store.Position{Revision: 5}, More: true}}),
		}},
		{"listing at an older position", false, []porcupine.Operation{
			op(0, 1, 2, put1, output{Revision: 5}),
			op(0, 3, 4, input{List: &store.Query{Prefix: "x"}}, output{Page: store.Page{Position: store.Position{Revision: 4}}}),
		}},
		{"conflict reveals an unknown commit", true, []porcupine.Operation{
			op(0, 1, 2, put1, unknown),
			op(1, 3, 4, commitOf(store.Put("k", []byte("3")), store.Absent("k")), conflict(store.Absent("k"), ptr(entry("k", "1", 7)))),
			op(1, 5, 6, commitOf(store.Put("k", []byte("3")), store.At("k", 7)), output{Revision: 8}),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := check(store.Page{}, test.ops, time.Minute)
			if test.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrNotLinearizable)
			}
		})
	}
}

func TestCheckGivesUp(t *testing.T) {
	var history []porcupine.Operation
	for i := range 40 { // all concurrent, and no order fits, so the check tries every order
		history = append(history, op(i, 1+int64(i), 100, commitOf(store.Put(key(i), []byte{byte(i)}), store.Absent(key(i))), output{Unknown: true}))
	}
	in, out := getOf("k", "never written", 1)
	history = append(history, op(41, 200, 201, in, out))
	require.ErrorIs(t, check(store.Page{}, history, time.Millisecond), ErrUndecided)
}

func TestRecorder(t *testing.T) {
	m, err := memory.New(nil)
	require.NoError(t, err)
	ctx := t.Context()
	_, err = m.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("before", nil)}})
	require.NoError(t, err)
	start, err := m.List(ctx, store.Query{})
	require.NoError(t, err)

	recorder := Recorder{Start: start}
	s := recorder.Store(0, m)
	require.Equal(t, m.Limits(), store.LimitsOf(s))
	value := []byte("1")
	r, err := s.Commit(ctx, store.Txn{If: []store.Condition{store.Exists("before")}, Do: []store.Operation{store.Put("k", value)}})
	require.NoError(t, err)
	value[0] = 'X' // the record is a copy
	_, err = s.Commit(ctx, store.Txn{If: []store.Condition{store.Absent("k")}})
	require.ErrorIs(t, err, store.ErrConflict)
	_, err = s.Get(ctx, "k")
	require.NoError(t, err)
	_, err = s.Get(ctx, "absent")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.List(ctx, store.Query{})
	require.NoError(t, err)
	require.Equal(t, 5, recorder.Len())

	_, err = s.Get(ctx, "")
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = s.List(ctx, store.Query{At: store.Position{Revision: r}})
	require.NoError(t, err)
	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("", nil)}})
	require.ErrorIs(t, err, store.ErrInvalid)
	require.Equal(t, 5, recorder.Len(), "definite errors and listings at a position are not recorded")
	require.NoError(t, recorder.Check(time.Minute))

	recorder.Start = store.Page{}
	require.ErrorIs(t, recorder.Check(time.Minute), ErrNotLinearizable, "without the state at the start")
	require.NoError(t, s.Close())
}
