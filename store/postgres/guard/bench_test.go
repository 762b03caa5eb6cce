package guard_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// BenchmarkInsert inserts a row of the host in a transaction of its own, with and without a
// guard.
func BenchmarkInsert(b *testing.B) {
	for _, clients := range []int{1, 16} {
		var plain float64
		for _, guarded := range []bool{false, true} {
			b.Run(fmt.Sprintf("guarded=%v/clients=%d", guarded, clients), func(b *testing.B) {
				h := newHost(b)
				h.create("acme")
				text := fmt.Sprintf("INSERT INTO %s (tenant) VALUES ($1)", h.table)
				var next atomic.Int64
				var running sync.WaitGroup
				errs := make([]error, clients)
				b.ResetTimer()
				for c := range clients {
					running.Go(func() {
						for next.Add(1) <= int64(b.N) && errs[c] == nil {
							errs[c] = pgx.BeginFunc(h.ctx, h.pool, func(tx pgx.Tx) error {
								if guarded {
									if err := h.guard.GuardTx(h.ctx, tx, "acme"); err != nil {
										return err
									}
								}
								_, err := tx.Exec(h.ctx, text, "acme")
								return err
							})
						}
					})
				}
				running.Wait()
				b.StopTimer()
				for _, err := range errs {
					require.NoError(b, err)
				}
				each := b.Elapsed().Seconds() / float64(b.N)
				if !guarded {
					plain = each
				} else if plain > 0 {
					b.ReportMetric(each/plain, "guarded/plain")
				}
			})
		}
	}
}
