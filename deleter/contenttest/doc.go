// Package contenttest checks implementations of [deleter.Content], and offers one
// in memory for tests of what builds upon them ([Fake]).
package contenttest
