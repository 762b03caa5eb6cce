package replicas_test

import (
	"fmt"
	"testing"
)

// BenchmarkOwns measures Owns and, for comparison, a map lookup of the same names.
func BenchmarkOwns(b *testing.B) {
	list := names(1024)
	for _, members := range []int{1, 4, 16} {
		b.Run(fmt.Sprint("members=", members), func(b *testing.B) {
			nodes := starts(b, newStore(b), members)
			for len(nodes[0].Members()) < members {
				<-nodes[0].Changed()
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				nodes[0].Owns(list[i%len(list)])
				i++
			}
		})
	}
	b.Run("map", func(b *testing.B) {
		all := map[string]bool{}
		for _, name := range list {
			all[name] = true
		}
		var hits int
		i := 0
		for b.Loop() {
			if all[list[i%len(list)]] {
				hits++
			}
			i++
		}
	})
}
