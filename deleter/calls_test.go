package deleter_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
)

const (
	list       = deleter.OpList
	del        = deleter.OpDelete
	collection = deleter.OpDeleteCollection
	estimate   = deleter.OpEstimate
)

// Calls cost more than everything else. Each case runs passes over one source until two in
// a row changed nothing, and counts the calls.
func TestCallsOfEachPass(t *testing.T) {
	type calls = []string // of each pass
	objects := func(n int) (all []contenttest.Object) {
		for i := range n {
			all = append(all, contenttest.Object{Name: fmt.Sprint("o", i)})
		}
		return all
	}
	held := []contenttest.Object{{Name: "a", Finalizers: []string{"example.com/hold"}}}
	for _, tt := range []struct {
		name    string
		options contenttest.FakeOptions
		objects []contenttest.Object
		again   bool // the type is not Final
		plain   bool // the source has no capabilities
		opts    deleter.Options
		want    calls
	}{
		{name: "empty for good", want: calls{"1c 1l", "-"}},
		{name: "empty, asked again", again: true, want: calls{"1c 1l", "1l", "1l"}},
		{name: "full", objects: objects(7), want: calls{"1c 1l", "-"}},
		{name: "full, one by one", objects: objects(7), plain: true, want: calls{"2l 7d", "-"}},
		{name: "empty, one by one", plain: true, want: calls{"1l", "-"}},
		{name: "held", objects: held, want: calls{"1c 1l", "1l", "1l"}},
		{name: "held, one by one", objects: held, plain: true, want: calls{"2l 1d", "1l", "1l"}},
		{
			name: "no collections: learnt once", objects: held,
			options: contenttest.FakeOptions{Unsupported: []deleter.Op{collection}},
			want:    calls{"1c 2l 1d", "1l", "1l"},
		},
		{
			name: "no estimates: learnt once", objects: objects(1), again: true,
			options: contenttest.FakeOptions{Unsupported: []deleter.Op{estimate}}, want: calls{"1c 1l", "1l"},
		},
		{
			name: "no deletion at all: learnt once", objects: objects(1), plain: true,
			options: contenttest.FakeOptions{Unsupported: []deleter.Op{del}}, want: calls{"2l 1d", "1l", "1l"},
		},
		{
			name: "down", objects: objects(1), options: *fails(errBoom), want: calls{"1c 1l", "1l", "1l"},
		},
		{
			name: "a budget that ends with a page", objects: objects(6), plain: true, opts: deleter.Options{PageSize: 3, MaxDeletes: 3},
			want: calls{"2l 3d", "2l 3d", "-"},
		},
		{name: "pages", objects: objects(7), plain: true, opts: deleter.Options{PageSize: 3}, want: calls{"4l 7d", "-"}},
		{
			name: "batches", objects: objects(7), options: contenttest.FakeOptions{Batch: 3},
			want: calls{"3c 1l", "-"},
		},
		{
			name: "a budget of batches", objects: objects(7), options: contenttest.FakeOptions{Batch: 3},
			opts: deleter.Options{MaxDeletes: 3}, want: calls{"1c 1l", "1c 1l", "1c 1l", "-"},
		},
		{
			name: "a budget of objects", objects: objects(7), plain: true, opts: deleter.Options{MaxDeletes: 3},
			want: calls{"2l 3d", "2l 3d", "2l 1d", "-"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fake(&tt.options, tt.objects...)
			s := source("things", f)
			if tt.plain {
				s.Content = plain{f}
			}
			s.Final = !tt.again
			d := compose(t, &tt.opts, s)
			var report deleter.Report
			var got calls
			for range tt.want {
				f.ResetCalls()
				report, _ = d.Delete(t.Context(), target(), report)
				got = append(got, counted(f))
			}
			require.Empty(t, cmp.Diff(tt.want, got))
		})
	}
}

func counted(f *contenttest.Fake) string {
	text := ""
	for _, op := range []struct {
		op     deleter.Op
		letter string
	}{{collection, "c"}, {list, "l"}, {del, "d"}, {estimate, "e"}} {
		if n := f.Calls(op.op); n > 0 {
			text += fmt.Sprintf(" %d%s", n, op.letter)
		}
	}
	if text == "" {
		return "-"
	}
	return text[1:]
}
