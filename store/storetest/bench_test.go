package storetest

import (
	"testing"

	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/stretchr/testify/require"
)

func BenchmarkMemory(b *testing.B) {
	Bench(b, func(t testing.TB) Backend {
		m, err := memory.New(nil)
		require.NoError(t, err)
		return Backend{Store: m}
	})
}
