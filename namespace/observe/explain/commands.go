package explain

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// waive returns the command that waives failures of a resource type or group.
func (f *facts) waive(source string) string {
	begin := f.kubectl("annotate", "namespace", f.name)
	if begin == "" {
		return ""
	}
	return fmt.Sprintf(`%s %s<NAME>='{"source":"%s","by":"<WHO>","reason":"<WHY>","until":"<YYYY-MM-DDThh:mm:ssZ>"}'`,
		begin, declare.WaiverPrefix, source)
}

// get returns the command that lists a resource type; empty if source is none.
func (f *facts) get(source string) string {
	if !isResource(source) {
		return ""
	}
	return f.kubectl("get", source, "-n", f.name)
}

// ownOptions are the options in commands. Other words that begin like one come from outside.
var ownOptions = []string{"-n", "-o", "--namespaced", "--show-managed-fields"}

const groupOption = "--api-group="

// kubectl returns a command for a POSIX shell. It returns none if an argument is an option
// that is not ours, or contains characters that no command should be pasted with.
func (f *facts) kubectl(args ...string) string {
	if strings.HasPrefix(f.name, "-") {
		return ""
	}
	words := []string{"kubectl"}
	for _, a := range args {
		ours := slices.Contains(ownOptions, a) || strings.HasPrefix(a, groupOption)
		if !pastable(a) || strings.HasPrefix(a, "-") && !ours {
			return ""
		}
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

func pastable(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r)) })
}

// quote quotes s for a POSIX shell if necessary.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:=,@+", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
