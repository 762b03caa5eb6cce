package watch

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/nslifecycle/nslifecycle/store"
)

func BenchmarkPublish(b *testing.B) {
	for _, watches := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprintf("watches=%d", watches), func(b *testing.B) {
			l := open(b, Options{})
			for range watches {
				follow(b, l.hub, "registry/configmaps/", store.Position{}, nil)
			}
			for i := range 1000 {
				follow(b, l.hub, fmt.Sprintf("registry/secrets/%d/", i), store.Position{}, nil)
			}
			for l.hub.watchers() < watches+1000 {
				runtime.Gosched()
			}
			c := store.Change{Events: []store.Event{{Key: "registry/configmaps/development/settings"}}}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				c.Position.Revision = store.Revision(i + 1)
				l.mu.Lock()
				l.changes = append(l.changes, c) // for the watches that fall behind
				l.mu.Unlock()
				l.hub.Publish(c)
			}
			b.StopTimer()
		})
	}
}
