package deleter

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// The kinds of failure. Match them with [errors.Is].
var (
	// ErrNotSupported is returned by a source that does not support an operation. The
	// composed deleter remembers it for that resource type and operation.
	ErrNotSupported = errors.New("operation not supported")
	// ErrNotSupportedHere is ErrNotSupported for one target only: the deleter tries another
	// way and remembers nothing. It does not match ErrNotSupported.
	ErrNotSupportedHere = errors.New("operation not supported in this namespace")
	// ErrInvalid is an invalid argument or option. The call did nothing.
	ErrInvalid = errors.New("invalid")
	// ErrIncarnation is returned by a source for a target that is not the current,
	// terminating incarnation of the namespace (rule R8).
	ErrIncarnation = errors.New("not a terminating incarnation of the namespace")
	// ErrExpired is returned by a source for a page token that is too old. The deleter lists
	// again from the start.
	ErrExpired = errors.New("page token expired")
	// ErrReplaced is returned by a source that was asked to delete an object whose uid has
	// changed.
	ErrReplaced = errors.New("another object has taken the name")
	// ErrUnexpected is content that remains after its deletion without a finalizer, a grace
	// period or a deletion mark that explains it.
	ErrUnexpected = errors.New("unexpected items still remain")
	// ErrUndeclared is the failure of a source with [Source].Undeclared.
	ErrUndeclared = errors.New("another version of the service stored objects of this type, and this process does not declare it; " +
		"run a version that declares it, or retire the type once none of it is left")
	// ErrNothingDiscovered is a discovery without any resource type. It may be broken, so it
	// counts as failed.
	ErrNothingDiscovered = errors.New("discovery found no resource types")

	errNoName    = errors.New("the listing has an object without a name")
	errSameToken = errors.New("the listing returned to an earlier page and never ends")
	errNegative  = errors.New("the source returned a negative number")
	errNothing   = errors.New("the source returned no remaining objects, but objects that are being deleted or held by finalizers")
)

// Op is an operation of [Content] or one of its further interfaces.
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

// SourceError is a failure of one source. Every error of a [Result] is a SourceError, or
// several combined.
type SourceError struct {
	Resource namespace.ResourceType
	Op       Op     // empty if the failure concerns more than one call
	Object   string // the object of a Delete; empty: the whole type
	Others   int    // number of further objects that failed in the same way
	Err      error
}

// Error returns a text such as "widgets.example.com: delete a: connection refused". Conditions
// carry it, and package explain reads the source from it.
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

// DiscoveryError is returned by a discovery function, together with the types that it
// found, if it found only a part of them. Groups that it does not list were discovered
// completely.
type DiscoveryError struct {
	Groups  []GroupError // groups whose resource types could not be discovered
	Parsing []error      // resource types whose group or version could not be read
	// Message describes Groups as a whole, for the condition; empty: they are listed.
	Message string
}

// GroupError is a group whose resource types could not be discovered.
type GroupError struct {
	Group string // empty: the core group
	Err   error
}

// Error returns the failures, sorted.
func (e *DiscoveryError) Error() string {
	texts := make([]string, 0, len(e.Groups)+len(e.Parsing))
	for _, err := range e.Unwrap() {
		texts = append(texts, fmt.Sprint(err))
	}
	slices.Sort(texts)
	return "discovery failed in part: " + strings.Join(texts, ", ")
}

// Unwrap returns every cause.
func (e *DiscoveryError) Unwrap() []error {
	return append(groupErrors(e.Groups), e.Parsing...)
}

func groupErrors(groups []GroupError) []error {
	var list []error
	for _, g := range groups {
		list = append(list, g)
	}
	return list
}

// groupsError is several groups with one message.
type groupsError struct {
	message string
	groups  []GroupError
}

func (e *groupsError) Error() string { return e.message }

// Failures makes the condition count the groups, see [phase.Observation].
func (e *groupsError) Failures() int { return len(e.groups) }

func (e *groupsError) Unwrap() []error { return groupErrors(e.groups) }

// Error returns a text such as "metrics.example.com: service unavailable".
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
	var e *SourceError
	if errors.As(err, &e) && e != nil {
		return e.Resource.String(), false
	}
	var g GroupError
	if errors.As(err, &g) {
		return g.Group, true
	}
	return "", false
}

// UnwaivedError is the failure of a source that [Target].Waived lists, if objects of it were
// seen. It is inside the [SourceError] or [GroupError] of the source.
type UnwaivedError struct {
	Objects int // lower bound of the objects that remained when the source last answered
	Err     error
}

const notWaived = " (not waived: "

// Error returns a text such as "down (not waived: 5 objects were left of it when it last answered)".
func (e *UnwaivedError) Error() string {
	left := fmt.Sprintf("%d objects were", e.Objects)
	if e.Objects == 1 {
		left = "1 object was"
	}
	return fmt.Sprintf("%v%s%s left of it when it last answered)", e.Err, notWaived, left)
}

// UnwaivedObjects returns the Objects of the [UnwaivedError] in the text of a failure, as a
// condition carries it; zero if there is none.
func UnwaivedObjects(text string) int {
	_, rest, _ := strings.Cut(text, notWaived)
	digits, _, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(digits) // zero if the text has no such number
	return max(n, 0)
}

// Unwrap returns the cause.
func (e *UnwaivedError) Unwrap() error { return e.Err }

// CycleError is a cycle of sources, each after the next, so that none of them can start. It
// matches [ErrInvalid].
type CycleError struct {
	Cycle []namespace.ResourceType // each comes after the next, the last after the first
}

// Error lists the cycle.
func (e *CycleError) Error() string {
	names := make([]string, 0, len(e.Cycle)+1)
	for _, r := range slices.Concat(e.Cycle, e.Cycle[:min(1, len(e.Cycle))]) {
		names = append(names, r.String())
	}
	return "the order of sources has a cycle: " + strings.Join(names, " after ")
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

// CatchPanic calls f and returns its panic as a [*PanicError].
func CatchPanic(in string, f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{In: in, Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
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
