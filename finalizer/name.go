// Package finalizer defines finalizers: the names with which parties keep a namespace from being
// removed, and the ordered set of them in spec.finalizers (design proposal of Kubernetes,
// "Finalizers").
package finalizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

// Name is the finalizer of one party: a qualified name ("example.com/agent") or a standard one.
// The party promises to remove it after it has deleted its content.
type Name string

// The standard names. They are valid without a prefix.
const (
	Kubernetes         Name = "kubernetes" // the default; added at creation if missing (rule R5)
	Orphan             Name = "orphan"
	ForegroundDeletion Name = "foregroundDeletion"
)

// ErrInvalid is matched by the errors of [Name.Validate].
var ErrInvalid = errors.New("invalid finalizer")

func (n Name) standard() bool {
	return n == Kubernetes || n == Orphan || n == ForegroundDeletion
}

// Validate returns nil if n is a standard or qualified name. Otherwise it returns an error that
// matches [ErrInvalid] and lists all problems.
func (n Name) Validate() error {
	if problems := n.Problems(); len(problems) > 0 {
		return fmt.Errorf("%w %q: %s", ErrInvalid, string(n), strings.Join(problems, ", "))
	}
	return nil
}

// Problems returns all problems of n, in the words and the order of Kubernetes, or nil.
func (n Name) Problems() []string {
	problems := syntax.QualifiedName(string(n))
	if !n.standard() && !strings.Contains(string(n), "/") {
		problems = append(problems, "name is neither a standard finalizer name nor is it fully qualified")
	}
	return problems
}
