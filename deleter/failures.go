package deleter

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/nslifecycle/nslifecycle/namespace"
	"go.uber.org/multierr"
)

// maxFailures bounds how many different failures of one type a pass tells apart.
const maxFailures = 8

// failures collects what fails in one source. Objects that fail in the same way
// count as one failure, so that a hundred thousand of them do not fill a report.
type failures struct {
	mu   sync.Mutex
	errs []*SourceError // by operation and cause, in order
	lost int            // different failures beyond those
}

func (f *failures) add(e *SourceError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, same := slices.BinarySearchFunc(f.errs, e, func(a, b *SourceError) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(fmt.Sprint(a.Err), fmt.Sprint(b.Err)))
	})
	if same {
		first := f.errs[at]
		e.Others = first.Others + 1
		if first.Object <= e.Object {
			e.Object, e.Err = first.Object, first.Err
		}
		f.errs[at] = e
		return
	}
	f.errs = slices.Insert(f.errs, at, e)
	if len(f.errs) > maxFailures {
		f.errs = f.errs[:maxFailures]
		f.lost++
	}
}

func (f *failures) none() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.errs) == 0
}

// err returns all of them as one error, nil if there are none.
func (f *failures) err(resource namespace.ResourceType) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all error
	for _, e := range f.errs {
		all = multierr.Append(all, e)
	}
	if f.lost > 0 {
		all = multierr.Append(all, &SourceError{Resource: resource, Err: fmt.Errorf("%d further failures", f.lost)})
	}
	return all
}

// safely calls f and turns its panic into an error. It cannot turn the end of
// the goroutine ([runtime.Goexit]) into one; callers count on that.
func safely(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}
