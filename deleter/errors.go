package deleter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// The kinds of failure. Match them with [errors.Is].
var (
	// ErrNotSupported is how a source says that it cannot do an operation at all. The
	// composed deleter remembers it for that resource type and operation only.
	ErrNotSupported = errors.New("operation not supported")
	// ErrNotSupportedHere is ErrNotSupported for the target at hand only: another way
	// is tried, and nothing is remembered. It does not match ErrNotSupported.
	ErrNotSupportedHere = errors.New("operation not supported in this namespace")
	// ErrInvalid is an argument or option that makes no sense; nothing was done.
	ErrInvalid = errors.New("invalid")
	// ErrIncarnation is how a source refuses a target that is not the namespace's
	// present, terminating incarnation (rule R8).
	ErrIncarnation = errors.New("not a terminating incarnation of the namespace")
	// ErrExpired is how a source says that a page token is too old to go on from.
	// The listing begins anew.
	ErrExpired = errors.New("page token expired")
	// ErrReplaced is how a source refuses to delete an object whose uid is another
	// than the one named.
	ErrReplaced = errors.New("another object has taken the name")
	// ErrUnexpected is content that is still there after its deletion, without a
	// finalizer, a grace period or a deletion mark that would explain it.
	ErrUnexpected = errors.New("unexpected items still remain")
	// ErrUndeclared is the failure of a source with [Source].Undeclared.
	ErrUndeclared = errors.New("another version of the service stored objects of this type, and this process does not declare it; " +
		"run a version that declares it, or retire the type once none of it is left")
	// ErrNothingDiscovered is a discovery that found no resource type at all; nobody
	// can tell that from a broken one, so it fails closed.
	ErrNothingDiscovered = errors.New("discovery found no resource types")
)

// Op names an operation of [Content] and its further interfaces.
type Op string

// The operations.
const (
	OpList             Op = "list"
	OpDelete           Op = "delete"
	OpDeleteCollection Op = "delete collection"
	OpEmpty            Op = "empty"
	OpEstimate         Op = "estimate"
	OpWait             Op = "wait"
	OpView             Op = "view"
	OpCount            Op = "count"
	OpDiscover         Op = "discover"
)

// SourceError is a failure of one source: every error of a [Result] is one, or
// several combined.
type SourceError struct {
	Resource namespace.ResourceType
	Op       Op     // what was asked; empty when it is about more than one call
	Object   string // the object it was asked for; empty: the whole type
	Others   int    // how many further objects failed in the same way
	Err      error
}

// Error returns such as "widgets.example.com: delete a: connection refused".
func (e *SourceError) Error() string {
	var b strings.Builder
	b.WriteString(e.Resource.String())
	if e.Op != "" {
		b.WriteString(": ")
		b.WriteString(string(e.Op))
	}
	if e.Object != "" {
		b.WriteString(" ")
		b.WriteString(e.Object)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Others > 0 {
		fmt.Fprintf(&b, " (and %d other objects in the same way)", e.Others)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }

// DiscoveryError is how a discovery function says that it found only a part of
// the resource types. It is returned together with those; types of groups that
// are not named here count as found completely.
type DiscoveryError struct {
	Groups  []GroupError // groups whose resource types could not be discovered
	Parsing []error      // resource types whose group or version could not be read
	// Message tells of Groups as a whole, for the condition; empty: they are listed.
	Message string
}

// GroupError is one group whose resource types could not be discovered.
type GroupError struct {
	Group string // empty: the core group
	Err   error
}

// Error lists what failed, sorted.
func (e *DiscoveryError) Error() string {
	if e == nil {
		return "discovery failed without saying how"
	}
	texts := make([]string, 0, len(e.Groups)+len(e.Parsing))
	for _, g := range e.Groups {
		texts = append(texts, g.Error())
	}
	for _, err := range e.Parsing {
		texts = append(texts, fmt.Sprint(err))
	}
	slices.Sort(texts)
	return "discovery failed in part: " + strings.Join(texts, ", ")
}

// Unwrap returns every cause.
func (e *DiscoveryError) Unwrap() []error {
	if e == nil {
		return nil
	}
	var causes []error
	for _, g := range e.Groups {
		causes = append(causes, g)
	}
	return append(causes, e.Parsing...)
}

// groupsError is groups that one message tells of.
type groupsError struct {
	message string
	groups  []GroupError
}

func (e *groupsError) Error() string { return e.message }

// Failures makes the condition count the groups, see [phase.Observation].
func (e *groupsError) Failures() int { return len(e.groups) }

func (e *groupsError) Unwrap() []error {
	causes := make([]error, len(e.groups))
	for i, g := range e.groups {
		causes[i] = g
	}
	return causes
}

// Error returns such as "metrics.example.com: service unavailable".
func (e GroupError) Error() string {
	group := e.Group
	if group == "" {
		group = "core group"
	}
	return fmt.Sprintf("%s: %v", group, e.Err)
}

// Unwrap returns the cause.
func (e GroupError) Unwrap() error { return e.Err }

// SourceOf returns the name of the source that failed with err, as in [Target].Waived: a
// resource type ("widgets.example.com"), or a group that could not be discovered. It
// returns an empty string for any other error, and for the core group.
func SourceOf(err error) string {
	source, _ := sourceOf(err)
	return source
}

func sourceOf(err error) (source string, group bool) {
	var of *SourceError
	if errors.As(err, &of) {
		if of == nil {
			return "", false
		}
		return of.Resource.String(), false
	}
	var g GroupError
	if errors.As(err, &g) {
		return g.Group, true
	}
	return "", false
}

// UnwaivedError is why the failure of a source that [Target].Waived names has failed all
// the same: something was seen of it. It is in the [SourceError] or [GroupError] of that.
type UnwaivedError struct {
	Objects int // how many were left of it when that could last be told, or at least so many
	Err     error
}

// Error returns such as "down (not waived: 5 objects were left of it when it last told)".
func (e *UnwaivedError) Error() string {
	if e.Objects == 1 {
		return fmt.Sprintf("%v (not waived: 1 object was left of it when it last told)", e.Err)
	}
	return fmt.Sprintf("%v (not waived: %d objects were left of it when it last told)", e.Err, e.Objects)
}

// Unwrap returns the cause.
func (e *UnwaivedError) Unwrap() error { return e.Err }

// CycleError is sources that come after one another in a circle, so that none of
// them could ever start. It matches [ErrInvalid].
type CycleError struct {
	Cycle []namespace.ResourceType // each comes after the next, the last after the first
}

// Error names the cycle.
func (e *CycleError) Error() string {
	if len(e.Cycle) == 0 {
		return "sources come after one another in a circle"
	}
	names := make([]string, 0, len(e.Cycle)+1)
	for _, r := range append(slices.Clip(e.Cycle), e.Cycle[0]) {
		names = append(names, r.String())
	}
	return "sources come after one another in a circle: " + strings.Join(names, " after ")
}

// Is reports whether target is [ErrInvalid].
func (e *CycleError) Is(target error) bool { return target == ErrInvalid }

// PanicError is a recovered panic of the host's code: a source, a discovery function, a
// [Deleter] or the storage of the namespaces.
type PanicError struct {
	In    string // the code that panicked, such as "the deleter"; empty if the error around it names it
	Value any
	Stack []byte
}

// Error returns the value without the stack.
func (e *PanicError) Error() string {
	if e.In == "" {
		return fmt.Sprintf("panic: %v", e.Value)
	}
	return fmt.Sprintf("%s panicked: %v", e.In, e.Value)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
