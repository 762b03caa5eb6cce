package contenttest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// Backend is content to be checked, with functions that prepare it and observe it from outside.
// It declares the capabilities of the content. A case that needs a capability runs only if it
// is declared. A false declaration fails, except that content with Wait may leave Notifies unset.
type Backend struct {
	// Content is the content to be checked. Objects without finalizers must be gone as soon
	// as their deletion returns. The Empty method is checked only if Functions is set.
	Content deleter.Content
	// Seed creates a terminating namespace with objects that were created while it was
	// Active. It first removes an existing namespace of that name with its content; the new
	// one is another incarnation. The objects have only Name and Finalizers; names consist
	// of lower case letters, digits and dashes.
	Seed func(ctx context.Context, namespace string, objects ...Object) (deleter.Target, error)
	// SeedActive does the same, but leaves the namespace Active and returns the target that
	// its deletion would have. Nil: the backend has no Active namespaces.
	SeedActive func(ctx context.Context, namespace string, objects ...Object) (deleter.Target, error)
	// Names returns the names of the objects in the target's namespace in any order. It does
	// not use Content.
	Names func(ctx context.Context, target deleter.Target) ([]string, error)
	// Release removes all finalizers from an object. Nil: objects have no finalizers.
	Release func(ctx context.Context, target deleter.Target, name string) error
	// Fail makes the backing store of Content (a database, a network; never Content itself)
	// fail every request, or serve again. If Fail is nil the suite cannot check whether
	// Content hides failures.
	Fail func(ctx context.Context, failing bool) error

	UIDs        bool // objects have uids
	Collections bool // Content is a [deleter.CollectionDeleter]
	Estimates   bool // Content is an [deleter.Estimator]
	Notifies    bool // Content is a [deleter.Notifier]
	Views       bool // Content is a [deleter.Viewer]
	Counts      bool // Content is a [deleter.Counter]
	// Functions reports that Content is made of [deleter.Funcs]: it does not delete single
	// objects, and lists them only if Views is set.
	Functions bool
}

// deadline bounds a case, because broken content tends to hang.
const deadline = 20 * time.Second

// Run checks the content that open returns. Each case opens its own.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	if open == nil {
		t.Fatal("open must not be nil")
	}
	for _, c := range allCases() {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			if err := b.check(); err != nil {
				t.Fatal(err)
			}
			if c.needs != nil && !c.needs(b) {
				t.Skip("not declared by the backend")
			}
			if err := c.run(t.Context(), b); err != nil {
				t.Fatalf("%v\nWhy it matters: %s", err, c.why)
			}
		})
	}
}

func (b Backend) check() error {
	if b.Content == nil || b.Seed == nil || b.Names == nil {
		return errors.New("the backend needs Content, Seed and Names")
	}
	return nil
}

// testCase is one requirement.
type testCase struct {
	name  string
	why   string
	needs func(Backend) bool // nil: always applies
	check func(p *probe) error
}

// run runs the case within the deadline. It abandons a call that ignores the end of its
// context.
func (c testCase) run(ctx context.Context, b Backend) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.check(&probe{Backend: b, ctx: ctx}) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return fmt.Errorf("not done within %v: %w", deadline, errors.Join(ctx.Err(), err))
	case <-time.After(deadline / 4):
		return fmt.Errorf("not done within %v, and a call continues although its context has ended", deadline)
	}
}

func collections(b Backend) bool { return b.Collections }
func notifies(b Backend) bool    { return b.Notifies && b.Release != nil }
func estimates(b Backend) bool   { return b.Estimates }
func finalizers(b Backend) bool  { return b.Release != nil }
func functions(b Backend) bool   { return b.Functions }
func objects(b Backend) bool     { return !b.Functions }
func lists(b Backend) bool       { return !b.Functions || b.Views }
func counts(b Backend) bool      { return b.Counts }

func allCases() []testCase {
	return []testCase{
		{"capabilities", "a false declaration hides that cases were left out, or fails hosts at run time", nil, checkCapabilities},
		{"list", "an object that is not listed counts as gone, and the namespace is removed with it (rule R7)", lists, checkList},
		{"list nothing", "an empty namespace must be seen to be empty, or it stays for ever (rule R12)", lists, checkListNothing},
		{"pages", "an object that falls between two pages is left behind; one listed twice is counted twice", lists, checkPages},
		{"remaining", "a pass that stops early adds the objects beyond the page to its count, which conditions report", lists, checkRemaining},
		{"pages while deleting", "a pass deletes the objects that it lists; a token that counts objects skips those that move up", objects, checkPagesWhileDeleting},
		{"delete", "exactly the object named must go", objects, checkDelete},
		{"delete a missing object", "passes repeat, and two may run at once (rule R11): deleting an object that is gone must succeed", objects, checkDeleteMissing},
		{"delete held", "a finalizer is a promise to clean up: the objects that it holds stay, and are reported as held", both(objects, finalizers), checkDeleteHeld},
		{"delete by uid", "an object that took the name of the listed one was never listed", both(objects, uids), checkDeleteByUID},
		{"other namespaces", "content of a neighbour is never touched, also if its name begins alike", nil, checkOtherNamespaces},
		{"R8 other incarnations", "a late pass must not touch the new namespace of that name", nil, checkOtherIncarnations},
		{"R6 active namespaces", "a listing of an Active namespace is not final, and its content is in use", active, checkActive},
		{"delete collection", "the count shows progress; a call that always reports more makes a pass spin", collections, checkCollection},
		{"delete held collection", "counting held objects again looks like progress, and a pass would not back off", both(collections, finalizers), checkCollectionHeld},
		{"function", "a pass trusts the number that a function returns: with a wrong one the namespace is removed above its content (rule R7)", functions, checkFunction},
		{"function held", "a finalizer is a promise to clean up: the objects that it holds stay, and are counted", both(functions, finalizers), checkFunctionHeld},
		{"count", "a preview must count the objects that a deletion would remove, and change nothing", counts, checkCount},
		{"wait for a removal", "the next pass starts when an object has disappeared, not when a timer fires", notifies, checkWaitAfter},
		{"wait after a removal", "an object that disappears between the listing and the wait must be noticed", notifies, checkWaitBefore},
		{"wait until the end", "a wait that returns without a change makes a hot loop; one that ignores its context hangs the controller", notifies, checkWaitEnds},
		{"estimate", "a negative time makes no sense, and an estimate must not fail for content that is held", estimates, checkEstimate},
		{"view", "a plan must list the objects that would be deleted, and change nothing", views, checkView},
		{"view held", "an inventory must list the finalizers of the remaining objects", both(views, finalizers), checkViewHeld},
		{"R8 view of other incarnations", "an inventory of one incarnation must not name objects of another: it is swept later", views, checkViewOtherIncarnations},
		{"R8 view of no incarnation", "a plan or an inventory of a missing namespace must not claim that it is empty", views, checkViewNoIncarnation},
		{"view bad input", "invalid names must not reach other content", both(objects, views), checkViewBadInput},
		{"bad input", "invalid names must not reach other content, and must be distinguishable from failures", objects, checkBadInput},
		{"cancelled", "a stopped pass must not change anything", nil, checkCancelled},
		{"at once", "passes of several controllers run at the same time (rule R11)", nil, checkAtOnce},
		{"failures", "a failure that reads like an empty answer lets a namespace be removed above its content (rule R7)", fails, checkFailures},
		{"composed", "a composed deleter must empty a namespace with it in the end, and report that", nil, checkComposed},
	}
}

func uids(b Backend) bool   { return b.UIDs }
func fails(b Backend) bool  { return b.Fail != nil }
func active(b Backend) bool { return b.SeedActive != nil }

func both(f, g func(Backend) bool) func(Backend) bool {
	return func(b Backend) bool { return f(b) && g(b) }
}
