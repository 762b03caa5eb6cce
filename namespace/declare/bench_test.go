package declare_test

import (
	"testing"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// BenchmarkDeclarations measures requests on namespaces with and without declarations.
func BenchmarkDeclarations(b *testing.B) {
	for _, c := range []struct {
		name  string
		pairs []string
	}{
		{"bare", nil},
		{"none", []string{"example.com/a", "{}", "example.com/b", "{}", "kubectl.kubernetes.io/last-applied-configuration", "{}"}},
		{"protected", []string{"example.com/a", "{}", legal, legalIs, backups, backupIs}},
	} {
		n := protectedNamespace(c.pairs...)
		b.Run(c.name+"/update", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := declare.ValidateUpdate(n, n, now); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/delete", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = declare.ValidateDelete(n, namespace.Preconditions{}, "default")
			}
		})
		b.Run(c.name+"/read", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = declare.Protections(n.Meta)
				_, _ = declare.Waivers(n.Meta)
			}
		})
	}
}
