package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

// BenchmarkRatio measures two things alternately, so that other load of the machine
// falls on both: a create with the check of a gate against one without, and a commit
// until its event has arrived at a watch of another process against the commit alone.
func BenchmarkRatio(b *testing.B) {
	dsn := benchServer(b)
	value := make([]byte, 512)
	ctx := context.Background()
	b.Run("gated", func(b *testing.B) {
		s := openAt(b, dsn, newSchema(), nil)
		commit(b, s, store.Put("gate", []byte("uid")))
		create := func(key string, conditions ...store.Condition) time.Duration {
			begun := time.Now()
			_, err := s.Commit(ctx, store.Txn{If: append(conditions, store.Absent(key)), Do: []store.Operation{store.Put(key, value)}})
			require.NoError(b, err)
			return time.Since(begun)
		}
		var gated, ungated time.Duration
		for i := 0; b.Loop(); i++ {
			if i%2 == 0 { // neither is always the first
				ungated += create(fmt.Sprint("u", i))
			}
			gated += create(fmt.Sprint("g", i), store.Exists("gate"))
			if i%2 == 1 {
				ungated += create(fmt.Sprint("u", i))
			}
		}
		b.ReportMetric(float64(gated)/float64(ungated), "gated/ungated")
	})
	b.Run("event", func(b *testing.B) {
		for _, handle := range []string{"same", "other"} {
			b.Run("process="+handle, func(b *testing.B) {
				schema := newSchema()
				s := openAt(b, dsn, schema, nil)
				watched := s
				if handle == "other" {
					watched = openAt(b, dsn, schema, nil)
				}
				benchEvents(b, s, watched, value)
			})
		}
	})
}

func benchEvents(b *testing.B, s, watched store.Store, value []byte) {
	ctx, stop := context.WithCancel(context.Background())
	events, ended := make(chan time.Time, 1), make(chan struct{})
	begun := make(chan struct{}, 1)
	go func() {
		defer close(ended)
		for c := range watched.Watch(ctx, "", store.Position{}) {
			if len(c.Events) > 0 {
				events <- time.Now()
				continue
			}
			select {
			case begun <- struct{}{}:
			default:
			}
		}
	}()
	<-begun
	var alone, arrived time.Duration
	for b.Loop() {
		from := time.Now()
		commit(b, s, store.Put("k", value))
		alone += time.Since(from)
		arrived += max(0, (<-events).Sub(from))
	}
	b.ReportMetric(float64(arrived)/float64(alone), "event/commit")
	stop()
	<-ended
}
