// Package finalizer defines the names by which parties hold a namespace, and
// the ordered set of them in spec.finalizers (design document, "Finalizers").
package finalizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

// Name is a qualified name ("example.com/agent") or one of the standard ones: a
// party's promise to clean up before the namespace is removed.
type Name string

// The standard names, valid although they are not qualified.
const (
	Kubernetes         Name = "kubernetes" // the default; added at creation when missing (rule R5)
	Orphan             Name = "orphan"
	ForegroundDeletion Name = "foregroundDeletion"
)

// ErrInvalid is what [Name.Validate] fails with.
var ErrInvalid = errors.New("invalid finalizer")

// Standard reports whether n is one of the standard names.
func (n Name) Standard() bool {
	return n == Kubernetes || n == Orphan || n == ForegroundDeletion
}

// Validate returns nil when n is a standard or a fully qualified name, and
// otherwise an error that matches [ErrInvalid] and lists everything that is
// wrong with it.
func (n Name) Validate() error {
	if wrong := n.Problems(); len(wrong) > 0 {
		return fmt.Errorf("%w %q: %s", ErrInvalid, string(n), strings.Join(wrong, ", "))
	}
	return nil
}

// Problems returns everything that is wrong with n, in upstream's words and
// order; nil when n is valid.
func (n Name) Problems() []string {
	wrong := syntax.QualifiedName(string(n))
	if !n.Standard() && !strings.Contains(string(n), "/") {
		wrong = append(wrong, "name is neither a standard finalizer name nor is it fully qualified")
	}
	return wrong
}
