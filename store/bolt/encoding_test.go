package bolt

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

func historyKey(key string, end store.Revision) []byte {
	return appendRevision(appendVersions(nil, key), end)
}

func TestHistoryKeyOrderAndBounds(t *testing.T) {
	keys := []string{
		"\x00", "\x00\x00", "\x00\x00\x00", "\x00\x01", "\x00\xFF", "\x00\xFF\x00", "\x01",
		"a", "a\x00", "a\x00\x00", "a\x00\x01", "a\x00\xFE", "a\x00\xFF", "a\x00\xFF\xFF", "a\x01", "a/", "a0", "aa",
		"\xFE", "\xFF", "\xFF\x00", "\xFF\x00\xFF", "\xFF\xFF", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
	}
	revisions := []store.Revision{1, 2, 255, 256, 1 << 40, math.MaxInt64}
	for i, a := range keys {
		for j, b := range keys {
			require.Equal(t, cmp.Compare(i, j), cmp.Compare(a, b), "the table is sorted")
			for _, ra := range revisions {
				for _, rb := range revisions {
					want := cmp.Or(cmp.Compare(a, b), cmp.Compare(ra, rb))
					require.Equal(t, want, bytes.Compare(historyKey(a, ra), historyKey(b, rb)), "%q@%d against %q@%d", a, ra, b, rb)
				}
				require.Equal(t, a == b, bytes.HasPrefix(historyKey(a, ra), appendVersions(nil, b)), "%q in the versions of %q", a, b)
				require.Equal(t, a >= b, bytes.Compare(historyKey(a, ra), appendEscaped(nil, b)) >= 0, "%q from %q on", a, b)
			}
		}
	}
}

// The longest allowed key must fit into the engine even if every byte is escaped.
func TestLongestKeyFits(t *testing.T) {
	longest := historyKey(strings.Repeat("\x00", limits.Key), math.MaxInt64)
	require.LessOrEqual(t, len(longest), 32768)
}

func TestDecodersRefuse(t *testing.T) {
	revision := func(b []byte) error { _, err := revisionOf(b); return err }
	record := func(b []byte) error { _, _, err := splitRecord(b); return err }
	history := func(b []byte) error { _, _, err := splitHistoryKey(b); return err }
	log := func(b []byte) error { _, err := splitLog(nil, append(make([]byte, sealSize), b...)); return err }
	headOf := func(b []byte) error { _, err := splitHead(b); return err }
	one := appendRevision(nil, 1)
	for name, c := range map[string]struct {
		decode func([]byte) error
		in     []byte
	}{
		"no revision":                    {revision, nil},
		"short revision":                 {revision, one[:7]},
		"long revision":                  {revision, append(one[:8:8], 0)},
		"zero revision":                  {revision, make([]byte, 8)},
		"negative revision":              {revision, bytes.Repeat([]byte{0xFF}, 8)},
		"no record":                      {record, nil},
		"short record":                   {record, one[:7]},
		"record of revision zero":        {record, make([]byte, valueStart+4)},
		"record of another value":        {record, append(append(make([]byte, sealSize+4), one...), "value"...)},
		"no history key":                 {history, nil},
		"history key without key":        {history, append([]byte{0, 0}, one...)},
		"history key without terminator": {history, append([]byte("abc"), one...)},
		"history key with bare zero":     {history, append([]byte("a\x00b\x00\x00"), one...)},
		"history key, zero at end":       {history, append([]byte("a\x00\x00\x00"), one...)},
		"history key of revision zero":   {history, append([]byte("a\x00\x00"), make([]byte, 8)...)},
		"no log":                         {log, nil},
		"log without key":                {log, []byte{byte(created), 0}},
		"log with kind 0":                {log, []byte{0, 1, 'a'}},
		"log with kind 4":                {log, []byte{4, 1, 'a'}},
		"log cut in the key":             {log, []byte{byte(created), 2, 'a'}},
		"log cut in the length":          {log, []byte{byte(created), 0x80}},
		"log with a huge length":         {log, []byte{byte(created), 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 'a'}},
		"log with an overflowing length": {log, bytes.Repeat([]byte{0xFF}, 20)},
		"log with a stray byte":          {log, []byte{byte(created), 1, 'a', byte(created)}},
		"no head":                        {headOf, nil},
		"long head":                      {headOf, make([]byte, headSize+1)},
		"head of revision zero":          {headOf, make([]byte, headSize)},
		"head compacted ahead":           {headOf, head{revision: 1, compacted: 2}.append(nil)},
		"head compacted negative":        {headOf, head{revision: 1, compacted: -2}.append(nil)},
		"head with negative changes":     {headOf, head{revision: 1, changes: -1}.append(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, c.decode(c.in), ErrCorrupt)
		})
	}
}

func FuzzHistoryKey(f *testing.F) {
	f.Add("a", "a\x00", int64(1), int64(2))
	f.Add("\x00\xFF", "\x00", int64(1<<40), int64(1))
	f.Add("/namespaces/a", "/namespaces/a/", int64(7), int64(7))
	f.Fuzz(func(t *testing.T, a, b string, ra, rb int64) {
		if a == "" || b == "" || ra <= 0 || rb <= 0 {
			t.Skip()
		}
		ea, eb := historyKey(a, store.Revision(ra)), historyKey(b, store.Revision(rb))
		if want, got := cmp.Or(cmp.Compare(a, b), cmp.Compare(ra, rb)), bytes.Compare(ea, eb); want != got {
			t.Errorf("%q@%d and %q@%d compare as %d, encoded as %d", a, ra, b, rb, want, got)
		}
		key, end, err := splitHistoryKey(ea)
		if err != nil || string(key) != a || end != store.Revision(ra) {
			t.Errorf("%q@%d decodes to %q@%d, %v", a, ra, key, end, err)
		}
	})
}

// For any bytes the decoders return ErrCorrupt, or a value that encodes to the same bytes.
func FuzzDecoders(f *testing.F) {
	f.Add(historyKey("a\x00b", 9))
	f.Add(appendLogItem(appendLogItem(make([]byte, sealSize), created, "a"), deleted, "b"))
	value := newRecord([]byte("value"))
	setRevision(value, 3)
	f.Add(value)
	f.Add(head{revision: 5, compacted: 2, changes: 3}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(what string, again []byte, err error) {
			switch {
			case err != nil && !errors.Is(err, ErrCorrupt):
				t.Errorf("%s: %v is not ErrCorrupt", what, err)
			case err == nil && !bytes.Equal(again, b):
				t.Errorf("%s: %x became %x", what, b, again)
			}
		}
		key, end, err := splitHistoryKey(b)
		check("history key", appendRevision(appendVersions(nil, key), end), err)

		r, value, err := splitRecord(b)
		again := newRecord(value)
		setRevision(again, r)
		if err == nil {
			copy(again, b[:sealSize]) // which covers the bucket and the key as well
		}
		check("record", again, err)

		h, err := splitHead(b)
		check("head", h.append(nil), err)

		items, err := splitLog(nil, b)
		if err != nil {
			check("log", nil, err)
			return
		}
		again = make([]byte, sealSize)
		for _, item := range items {
			again = appendLogItem(again, item.kind, string(item.key))
		}
		// A uvarint has several encodings; the items must be the same.
		back, err := splitLog(nil, again)
		if diff := gocmp.Diff(items, back, gocmp.AllowUnexported(logItem{})); err != nil || diff != "" {
			t.Errorf("log: %v %s", err, diff)
		}
	})
}
