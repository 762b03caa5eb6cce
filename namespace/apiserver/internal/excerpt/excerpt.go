// Package excerpt cuts what a client or a host sent, so that a message can repeat
// it.
package excerpt

import "github.com/nslifecycle/nslifecycle/phase"

const most = 100 // bytes

// Of returns text, or its beginning when it is long, as valid UTF-8.
func Of(text string) string {
	return phase.Truncate(text, most)
}
