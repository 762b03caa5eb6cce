// Package excerpt cuts what a client or a host sent, so that a message can repeat
// it.
package excerpt

import "strings"

const most = 100 // bytes

// Of returns text, or its beginning when it is long, as valid UTF-8.
func Of(text string) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
