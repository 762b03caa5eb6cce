package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

func TestConditionHolds(t *testing.T) {
	entry := &store.Entry{Key: "a", Revision: 7}
	for _, test := range []struct {
		condition store.Condition
		present   bool
		absent    bool
		text      string
	}{
		{store.At("a", 7), true, false, `"a" is at revision 7`},
		{store.At("a", 6), false, false, `"a" is at revision 6`},
		{store.At("a", 8), false, false, `"a" is at revision 8`},
		{store.Exists("a"), true, false, `"a" exists`},
		{store.Absent("a\n"), false, true, `"a\n" is absent`},
		{store.Condition{Key: "a"}, false, false, `"a" has the unknown condition 0`},
		{store.Condition{Key: "a", Want: 9}, false, false, `"a" has the unknown condition 9`},
	} {
		t.Run(test.text, func(t *testing.T) {
			require.Equal(t, test.present, test.condition.Holds(entry))
			require.Equal(t, test.absent, test.condition.Holds(nil))
			require.Equal(t, test.text, test.condition.String())
		})
	}
}

func TestTxnCheck(t *testing.T) {
	limits := store.Limits{Key: 4, Value: 6, Operations: 3, Bytes: 20}
	puts := func(n int, key string) (do []store.Operation) {
		for i := range n {
			do = append(do, store.Put(fmt.Sprintf("%s%d", key, i), nil))
		}
		return do
	}
	exists := func(n int) (conditions []store.Condition) {
		for range n {
			conditions = append(conditions, store.Exists("key"))
		}
		return conditions
	}
	for _, test := range []struct {
		name   string
		txn    store.Txn
		limits store.Limits
		want   error
		text   string
	}{
		{"nothing", store.Txn{}, limits, nil, ""},
		{"as much as allowed", store.Txn{If: exists(3), Do: []store.Operation{
			store.Put("1234", []byte("123456")), store.Put("123", []byte("123456")), store.Delete("1"),
		}}, limits, nil, ""},
		{"a key and a value of any bytes", store.Txn{Do: []store.Operation{store.Put("\x00\xff/.", []byte{0, 255})}}, limits, nil, ""},
		{"no limits", store.Txn{If: exists(100), Do: append(puts(100, "key"), store.Put("big", make([]byte, 1<<20)))}, store.Limits{}, nil, ""},
		{"several conditions on a key", store.Txn{If: []store.Condition{store.Exists("a"), store.At("a", 1)}}, limits, nil, ""},

		{"too many operations", store.Txn{Do: puts(4, "a")}, limits, store.ErrTooLarge, "4 operations, the limit is 3"},
		{"too many conditions", store.Txn{If: exists(4)}, limits, store.ErrTooLarge, "4 conditions"},
		{"a long key", store.Txn{Do: puts(1, "1234")}, limits, store.ErrTooLarge, `"12340"`},
		{"a long key in a condition", store.Txn{If: []store.Condition{store.Absent("12345")}}, limits, store.ErrTooLarge, `"12345"`},
		{"a very long key", store.Txn{Do: puts(1, strings.Repeat("long", 1000))}, limits, store.ErrTooLarge, "4001 bytes"},
		{"a large value", store.Txn{Do: []store.Operation{store.Put("a", make([]byte, 7))}}, limits, store.ErrTooLarge, `"a" has 7 bytes`},
		{"many bytes", store.Txn{Do: []store.Operation{
			store.Put("1", make([]byte, 6)), store.Put("2", make([]byte, 6)), store.Put("3", make([]byte, 6)),
		}}, limits, store.ErrTooLarge, "21 bytes"},
		{"no key", store.Txn{Do: []store.Operation{store.Put("", nil)}}, limits, store.ErrInvalid, "key is empty"},
		{"no key in a condition", store.Txn{If: []store.Condition{store.Exists("")}}, limits, store.ErrInvalid, "key is empty"},
		{"no condition", store.Txn{If: []store.Condition{{Key: "a"}}}, limits, store.ErrInvalid, `"a" has the unknown condition 0`},
		{"an unknown condition", store.Txn{If: []store.Condition{{Key: "a", Want: store.WantAbsent + 1}}}, limits, store.ErrInvalid, "unknown"},
		{"revision zero", store.Txn{If: []store.Condition{store.At("a", 0)}}, limits, store.ErrInvalid, "must be positive"},
		{"a negative revision", store.Txn{If: []store.Condition{store.At("a", -1)}}, limits, store.ErrInvalid, "must be positive"},
		{"a deletion with a value", store.Txn{Do: []store.Operation{{Key: "a", Delete: true, Value: []byte{}}}}, limits, store.ErrInvalid, `"a" carries a value`},
		{"two operations on a key", store.Txn{Do: []store.Operation{store.Put("a", nil), store.Put("b", nil), store.Delete("a")}}, limits, store.ErrInvalid, `"a"`},
		{"two among many operations on a key", store.Txn{Do: append(puts(20, "key"), store.Delete("key7"))}, store.Limits{}, store.ErrInvalid, `"key7"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.txn.Check(test.limits)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
			require.Less(t, len(err.Error()), 200, "an error does not repeat a long key")
		})
	}
}

// A transaction of the usual size is checked without allocating.
func TestTxnCheckAllocates(t *testing.T) {
	txn := store.Txn{
		If: []store.Condition{store.Exists("gate"), store.Absent("key")},
		Do: []store.Operation{store.Put("key", nil), store.Put("index", nil)},
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = txn.Check(store.Limits{Key: 10}) }))
}

func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	err := error(&store.Error{Op: "get", Key: "a\n", Err: cause})
	require.EqualError(t, err, `store: get "a\n": cause`)
	require.ErrorIs(t, err, cause)
	require.EqualError(t, &store.Error{Op: "close", Err: cause}, "store: close: cause")

	absent := &store.ConflictError{Condition: store.Exists("a")}
	require.EqualError(t, absent, `conflict: expected that "a" exists, but it is absent`)
	stale := &store.ConflictError{Condition: store.At("a", 3), Current: &store.Entry{Key: "a", Revision: 7}}
	require.EqualError(t, stale, `conflict: expected that "a" is at revision 3, but it is at revision 7`)
	err = fmt.Errorf("above: %w", &store.Error{Op: "commit", Key: "a", Err: stale})
	require.ErrorIs(t, err, store.ErrConflict)
	require.NotErrorIs(t, err, store.ErrNotFound)
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Same(t, stale, conflict)
}

// An error repeats no more of a long key than it takes to recognise it.
func TestErrorsOfLongKeys(t *testing.T) {
	long := strings.Repeat("key/", 1<<20)
	var none store.Limits
	for name, err := range map[string]error{
		"an error":       &store.Error{Op: "get", Key: long, Err: store.ErrTooLarge},
		"a conflict":     &store.ConflictError{Condition: store.At(long, 7)},
		"a condition":    store.Txn{If: []store.Condition{{Key: long}}}.Check(none),
		"a revision":     store.Txn{If: []store.Condition{store.At(long, -1)}}.Check(none),
		"a value":        store.Txn{Do: []store.Operation{store.Put(long, []byte("v2"))}}.Check(store.Limits{Value: 1}),
		"a deletion":     store.Txn{Do: []store.Operation{{Key: long, Delete: true, Value: []byte{}}}}.Check(none),
		"two operations": store.Txn{Do: []store.Operation{store.Delete(long), store.Delete(long)}}.Check(none),
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, err, `"key/key/`)
			require.ErrorContains(t, err, `key/key/"... (4194304 bytes)`)
			require.Less(t, len(err.Error()), 400)
		})
	}
}

func TestBookmark(t *testing.T) {
	require.True(t, store.Change{Position: store.Position{Revision: 1}}.Bookmark())
	require.False(t, store.Change{Events: []store.Event{{Key: "a"}}}.Bookmark())
}

// limited is a store that declares limits; bare is one that does not.
type (
	bare    struct{ store.Store }
	limited struct {
		bare
		limits store.Limits
	}
)

func (l limited) Limits() store.Limits { return l.limits }

func TestLimitsOf(t *testing.T) {
	limits := store.Limits{Key: 1, Value: 2, Operations: 3, Bytes: 4}
	require.Equal(t, limits, store.LimitsOf(limited{limits: limits}))
	require.Zero(t, store.LimitsOf(bare{}))
	require.Zero(t, store.LimitsOf(nil))
}

func ExampleTxn() {
	// Delete an object only if it has not changed, and leave a trace.
	txn := store.Txn{
		If: []store.Condition{store.At("configmaps/development/settings", 7)},
		Do: []store.Operation{
			store.Delete("configmaps/development/settings"),
			store.Put("trace/settings", []byte("deleted")),
		},
	}
	fmt.Println(txn.Check(store.Limits{}))
	fmt.Println(txn.Check(store.Limits{Operations: 1}))
	fmt.Println(txn.If[0])
	// Output:
	// <nil>
	// too large: 1 conditions and 2 operations, the limit is 1 of each
	// "configmaps/development/settings" is at revision 7
}
