package limitrange_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkCreate creates objects of two items with and without a LimitRange.
func BenchmarkCreate(b *testing.B) {
	for _, ranges := range []int{0, 1} {
		b.Run(fmt.Sprint("ranges=", ranges), func(b *testing.B) {
			e := newEnv(b)
			if ranges > 0 {
				e.limit("a", `[{"type":"Container","default":{"cpu":"1"},"min":{"cpu":"1m"},"max":{"cpu":"2"}},{"type":"Pod","max":{"cpu":"4"}}]`)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, err := e.create(pods, fmt.Sprint("p", i), `{"containers":[{"name":"c"},{"name":"d","resources":{"limits":{"cpu":"500m"}}}]}`)
				require.NoError(b, err)
			}
		})
	}
}
