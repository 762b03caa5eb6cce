package namespace

import (
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

// NameLabel is the label that names a namespace, so that selectors can. It is
// set at creation and cannot be changed.
const NameLabel = "kubernetes.io/metadata.name"

// NameRule says which metadata an object must have to be told from others. The
// zero rule is that of namespaces.
type NameRule struct {
	// Subdomain allows dots and 253 bytes in names (a DNS subdomain, as the names of
	// most content); otherwise they are DNS labels of at most 63 bytes.
	Subdomain bool
	// Namespaced objects must name the namespace that they belong to; others must not.
	Namespaced bool
}

// ValidateName returns everything that is wrong with the name of a namespace, in
// upstream's words; nil when nothing is. The empty name is wrong.
func ValidateName(name string) []string { return syntax.Label(name) }

// Check returns everything that is wrong with a name; nil when nothing is.
func (r NameRule) Check(name string) []string {
	if r.Subdomain {
		return syntax.Subdomain(name)
	}
	return syntax.Label(name)
}

// CheckPrefix is Check for a generateName, to which characters are appended: it
// may end in a dash.
func (r NameRule) CheckPrefix(prefix string) []string {
	if stem, ok := strings.CutSuffix(prefix, "-"); ok && stem != "" && !strings.HasSuffix(stem, ".") {
		return r.Check(stem + "a")
	}
	return r.Check(prefix)
}

// GenerateName returns prefix with five characters appended that are taken from
// random; the prefix is cut so that the name fits a DNS label. Equal arguments
// give equal names.
func GenerateName(prefix string, random uint64) string {
	const (
		letters = "bcdfghjklmnpqrstvwxz2456789" // without vowels: no words by accident
		suffix  = 5
	)
	if len(prefix) > syntax.MaxLabel-suffix {
		prefix = prefix[:syntax.MaxLabel-suffix]
	}
	var tail [suffix]byte
	for i := range tail {
		tail[i] = letters[random%uint64(len(letters))]
		random /= uint64(len(letters))
	}
	return prefix + string(tail[:])
}
