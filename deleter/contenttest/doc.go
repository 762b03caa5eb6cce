// Package contenttest checks implementations of [deleter.Content], and offers one
// in memory for tests of what builds upon them ([Fake]).
//
// A custom source is right when its test passes:
//
//	func TestContent(t *testing.T) {
//		contenttest.Run(t, func(t *testing.T) contenttest.Backend {
//			return contenttest.Backend{Content: ..., Seed: ..., Names: ...}
//		})
//	}
//
// A [deleter.Func] cannot pass: it neither lists nor deletes single objects. There is no
// suite for functions yet.
package contenttest
