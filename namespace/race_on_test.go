//go:build race

package namespace_test

const underRace = true
