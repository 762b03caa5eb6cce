// Package contenttest checks implementations of [deleter.Content], and offers one
// in memory for tests of code that uses sources ([Fake]).
//
// A custom source is right when its test passes:
//
//	func TestContent(t *testing.T) {
//		contenttest.Run(t, func(t *testing.T) contenttest.Backend {
//			return contenttest.Backend{Content: ..., Seed: ..., Names: ...}
//		})
//	}
//
// For [deleter.Funcs] set Backend.Functions, and Views and Counts if there are List and Count
// functions.
package contenttest
