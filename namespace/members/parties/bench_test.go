package parties_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/store"
)

// BenchmarkList measures the listing that an explanation needs, beside a plain listing of the
// same entries.
func BenchmarkList(b *testing.B) {
	for _, many := range []int{3, 100} {
		s := newStore(b)
		seen := time.Now().UTC().Format(time.RFC3339Nano)
		for i := range many {
			for j := range 3 {
				put(b, s, fmt.Sprintf("%sexample.com/agent-%d/%024d", entries, i, j),
					fmt.Sprintf(`{"label":"host-%d:1","contact":"#agents","since":%q,"seen":%q,"patience":"30s"}`, j, seen, seen))
			}
		}
		b.Run(fmt.Sprint("parties=", many), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				list, err := parties.List(context.Background(), s, "")
				require.NoError(b, err)
				require.Len(b, list, many)
			}
		})
		b.Run(fmt.Sprint("entries=", 3*many), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := s.List(context.Background(), store.Query{Prefix: entries})
				require.NoError(b, err)
			}
		})
	}
}
