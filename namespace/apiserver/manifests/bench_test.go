package manifests_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSync syncs 1,000 objects that match their documents.
func BenchmarkSync(b *testing.B) {
	e := newEnv(b).space()
	var texts []string
	for i := range 1000 {
		texts = append(texts, configmap(fmt.Sprint("c", i), "1"))
	}
	s := e.syncer(fixedOf(docs(texts...)), nil)
	e.sync(s)
	for b.Loop() {
		result, err := s.Sync(e.ctx)
		require.NoError(b, err)
		require.Equal(b, 1000, result.Unchanged)
	}
}
