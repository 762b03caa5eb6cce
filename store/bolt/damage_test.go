package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
)

// answers maps questions to the answers of a store: an entry, a page, changes, or an error.
type answers map[string]any

// ask asks s all questions about keys, now and at a position in the past.
func ask(ctx context.Context, s *Store, keys []string, start, past store.Position) answers {
	all := answers{}
	note := func(question string, answer any, err error) {
		if errors.Is(err, store.ErrNotFound) {
			answer, err = "absent", nil
		}
		if err != nil {
			answer = err
		}
		all[question] = answer
	}
	for _, key := range keys {
		e, err := s.Get(ctx, key)
		note("get "+key, e, err)
	}
	for _, at := range []store.Position{{}, past} {
		for _, prefix := range []string{"", "k1", "k2", "large", "none"} {
			q := store.Query{Prefix: prefix, At: at}
			p, err := s.List(ctx, q)
			note(fmt.Sprintf("list %q at %d", prefix, at.Revision), p, err)
			n, err := s.Count(ctx, q)
			note(fmt.Sprintf("count %q at %d", prefix, at.Revision), n, err)
		}
	}
	for _, prefix := range []string{"", "k1"} {
		var changes []store.Change
		var failure error
		for c, err := range s.Watch(ctx, prefix, start) {
			if failure = err; err != nil || c.Bookmark() {
				break
			}
			changes = append(changes, c)
		}
		note("watch "+prefix, changes, failure)
	}
	return all
}

// wrong returns a question whose answer is neither right nor an error.
func (a answers) wrong(right answers) string {
	for question, answer := range a {
		if err, failed := answer.(error); failed {
			if !errors.Is(err, ErrCorrupt) {
				return fmt.Sprintf("%s: %v", question, err)
			}
			continue
		}
		if !reflect.DeepEqual(answer, right[question]) {
			return question
		}
	}
	return ""
}

// written creates a store with entries, a history and free pages, and returns its answers.
func written(t *testing.T, path string) (content []byte, keys []string, start, past store.Position, right answers) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := openAt(t, path, nil)
	start = listAt(t, s, store.Position{}).Position
	for round := range 3 {
		for batch := range 20 {
			var ops []store.Operation
			for i := range 25 {
				key := fmt.Sprintf("k%03d", batch*25+i)
				switch {
				case round > 0 && rng.IntN(3) == 0:
				case round == 2 && rng.IntN(3) == 0:
					ops = append(ops, store.Delete(key))
				default:
					ops = append(ops, store.Put(key, []byte(strings.Repeat(key, rng.IntN(40)))))
				}
			}
			commit(t, s, ops...)
		}
		put(t, s, "large", strings.Repeat(fmt.Sprint(round), 20_000))
		if round == 1 {
			past = listAt(t, s, store.Position{}).Position
		}
	}
	for i := range 520 {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	keys = append(keys, "large", "a", "z")
	right = ask(t.Context(), s, keys, start, past)
	checkFile(t, s)
	require.NoError(t, s.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content, keys, start, past, right
}

// After any damage to a closed file no answer is wrong, and nothing panics. Options.Check
// finds damage that hides records from an ordinary opening. A file that it accepts returns the
// same results as before.
func TestDamage(t *testing.T) {
	const trials = 60
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	content, keys, start, past, right := written(t, path)
	was := map[string]bool{} // every entry that ever existed
	for _, c := range right["watch "].([]store.Change) {
		for _, e := range c.Events {
			was[fmt.Sprint(e.Key, c.Position.Revision, string(e.Value))] = true
		}
	}
	rng := seeded(t)
	page := os.Getpagesize()
	found := map[string]int{}
	for i := range trials {
		damaged := append([]byte(nil), content...)
		at := rng.IntN(len(damaged)/page) * page
		var what string
		switch i % 3 {
		case 0:
			what = fmt.Sprintf("page %d is zero", at/page)
			clear(damaged[at : at+page])
		case 1:
			bit := rng.IntN(8 * page)
			what = fmt.Sprintf("page %d has bit %d flipped", at/page, bit)
			damaged[at+bit/8] ^= 1 << (bit % 8)
		case 2:
			bit := rng.IntN(8 * 160)
			what = fmt.Sprintf("page %d has bit %d flipped, at its begin", at/page, bit)
			damaged[at+bit/8] ^= 1 << (bit % 8)
		}
		checked, err := askDamaged(t, path, damaged, &Options{Check: true}, keys, start, past)
		strict := err == nil
		if strict {
			require.Empty(t, checked.wrong(right), "%s: with a check", what)
			found["unharmed"]++
		}
		plain, err := askDamaged(t, path, damaged, nil, keys, start, past)
		if err != nil {
			found["at open"]++
			continue
		}
		for _, key := range keys {
			if e, ok := plain["get "+key].(store.Entry); ok {
				require.True(t, was[fmt.Sprint(key, e.Revision, string(e.Value))], "%s: Get(%q) answered what never was", what, key)
			}
		}
		switch wrong := plain.wrong(right); {
		case wrong != "":
			require.False(t, strict, "%s: %s is wrong, and a check found nothing", what, wrong)
			found["only by a check"]++
		case !strict:
			found["when read, or by a check"]++
		}
	}
	t.Log(found)
	require.Positive(t, found["at open"]+found["when read, or by a check"])
}

func askDamaged(t *testing.T, path string, content []byte, opts *Options, keys []string, start, past store.Position) (answers, error) {
	require.NoError(t, os.WriteFile(path, content, 0o600))
	s, err := Open(path, opts)
	if err != nil {
		ok := errors.Is(err, ErrCorrupt) || errors.Is(err, ErrFormat) || errors.Is(err, ErrForeign)
		require.True(t, ok, "Open: %v", err)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := ask(ctx, s, keys, start, past)
	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k100", []byte("new")), store.Delete("k200")}})
	if err != nil {
		require.ErrorIs(t, err, ErrCorrupt)
	}
	_ = s.Close()
	return all, nil
}

// An intact record at another place, or of another time, is damage.
func TestMisplacedRecords(t *testing.T) {
	for name, edit := range map[string]func(state, history *bbolt.Bucket) error{
		"two are swapped": func(state, _ *bbolt.Bucket) error {
			b, d := bytes.Clone(state.Get([]byte("b"))), bytes.Clone(state.Get([]byte("d")))
			return errors.Join(state.Put([]byte("b"), d), state.Put([]byte("d"), b))
		},
		"one is at the key beside": func(state, _ *bbolt.Bucket) error {
			record := bytes.Clone(state.Get([]byte("b")))
			return errors.Join(state.Delete([]byte("b")), state.Put([]byte("a"), record))
		},
		"one is of the history": func(state, history *bbolt.Bucket) error {
			_, record := history.Cursor().First()
			return state.Put([]byte("b"), bytes.Clone(record))
		},
		"one has another value": func(state, _ *bbolt.Bucket) error {
			record := bytes.Clone(state.Get([]byte("b")))
			record[len(record)-1]++
			return state.Put([]byte("b"), record)
		},
		"one has another revision": func(state, _ *bbolt.Bucket) error {
			record := bytes.Clone(state.Get([]byte("b")))
			setRevision(record, 2)
			return state.Put([]byte("b"), record)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s := openAt(t, path, nil)
			put(t, s, "b", "old")
			for _, key := range []string{"b", "d", "f"} {
				put(t, s, key, "of "+key)
			}
			require.NoError(t, s.Close())
			editFile(t, path, func(tx *bbolt.Tx) error { return edit(tx.Bucket(bucketState), tx.Bucket(bucketHistory)) })
			_, err := Open(path, &Options{Check: true})
			require.ErrorIs(t, err, ErrCorrupt)
			s = openAt(t, path, nil)
			_, err = s.Get(t.Context(), "b")
			require.ErrorIs(t, err, ErrCorrupt)
			_, err = s.List(t.Context(), store.Query{})
			require.ErrorIs(t, err, ErrCorrupt)
			_, err = s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("b", nil)}})
			require.ErrorIs(t, err, ErrCorrupt)
			e, err := s.Get(t.Context(), "f")
			require.NoError(t, err)
			require.Equal(t, "of f", string(e.Value))
		})
	}
}

// Options.Check finds lost and outdated records, which an ordinary opening cannot detect.
func TestCheckFindsLostRecords(t *testing.T) {
	for name, edit := range map[string]func(tx *bbolt.Tx, before []byte) error{
		"an entry":  func(tx *bbolt.Tx, _ []byte) error { return tx.Bucket(bucketState).Delete([]byte("d")) },
		"a change":  func(tx *bbolt.Tx, _ []byte) error { return tx.Bucket(bucketLog).Delete(appendRevision(nil, 3)) },
		"a version": func(tx *bbolt.Tx, _ []byte) error { return tx.Bucket(bucketHistory).Delete(historyKey("b", 4)) },
		"an update": func(tx *bbolt.Tx, before []byte) error { return tx.Bucket(bucketState).Put([]byte("b"), before) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s := openAt(t, path, nil)
			put(t, s, "d", "1") // revision 2
			put(t, s, "b", "1")
			require.NoError(t, s.Close())
			var before []byte
			editFile(t, path, func(tx *bbolt.Tx) error { before = bytes.Clone(tx.Bucket(bucketState).Get([]byte("b"))); return nil })
			s = openAt(t, path, &Options{Check: true})
			put(t, s, "b", "2")
			require.NoError(t, s.Close())
			editFile(t, path, func(tx *bbolt.Tx) error { return edit(tx, before) })
			_, err := Open(path, &Options{Check: true})
			require.ErrorIs(t, err, ErrCorrupt)
		})
	}
}

// Damage to either meta page of a closed store loses no commit.
func TestDamagedMetaPage(t *testing.T) {
	for slot := range 2 {
		path := filepath.Join(t.TempDir(), "store.db")
		s := openAt(t, path, nil)
		put(t, s, "a", "1")
		last := put(t, s, "a", "2")
		require.NoError(t, s.Close())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		content[slot*os.Getpagesize()+60] ^= 1
		require.NoError(t, os.WriteFile(path, content, 0o600))
		s = openAt(t, path, &Options{Check: true})
		e, err := s.Get(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, last, e.Revision)
	}
}
