package contenttest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// functionsOf declares everything of the functions.
func functionsOf(f *Fake, funcs deleter.Funcs) Backend {
	b := backendOf(f, funcs.Content())
	b.Functions, b.Views, b.Counts = true, funcs.List != nil, funcs.Count != nil
	b.UIDs, b.Collections, b.Estimates, b.Notifies = b.Views, false, false, false
	return b
}

func TestFunctions(t *testing.T) {
	for name, edit := range map[string]func(f *deleter.Funcs){
		"all":          func(*deleter.Funcs) {},
		"Delete alone": func(f *deleter.Funcs) { f.Count, f.List = nil, nil },
		"with Count":   func(f *deleter.Funcs) { f.List = nil },
		"with List":    func(f *deleter.Funcs) { f.Count = nil },
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(*testing.T) Backend {
				f := NewFake(&FakeOptions{Batch: 7})
				funcs := f.Funcs()
				edit(&funcs)
				return functionsOf(f, funcs)
			})
		})
	}
}

// brokenFunctions break one function; the case must find it.
var brokenFunctions = []struct {
	fails, defect string
	breaks        func(f *Fake, funcs *deleter.Funcs)
}{
	{"function", "returns zero while objects remain", func(f *Fake, funcs *deleter.Funcs) {
		f.opts.Batch = 7
		correct := funcs.Delete
		funcs.Delete = func(ctx context.Context, target deleter.Target) (int, error) {
			_, err := correct(ctx, target)
			return 0, err
		}
	}},
	{"function", "counts before the deletion", func(f *Fake, funcs *deleter.Funcs) {
		correct := funcs.Delete
		funcs.Delete = func(ctx context.Context, target deleter.Target) (int, error) {
			n := len(f.Names(target))
			_, err := correct(ctx, target)
			return n, err
		}
	}},
	{"function held", "does not count held objects", func(_ *Fake, funcs *deleter.Funcs) {
		correct := funcs.Delete
		funcs.Delete = func(ctx context.Context, target deleter.Target) (int, error) {
			_, err := correct(ctx, target)
			return 0, err
		}
	}},
	{"R8 other incarnations", "deletes by name", func(f *Fake, funcs *deleter.Funcs) {
		correct := funcs.Delete
		funcs.Delete = func(ctx context.Context, target deleter.Target) (int, error) {
			return correct(ctx, (&mutant{Fake: f}).present(target))
		}
	}},
	{"R6 active namespaces", "deletes in an Active namespace", func(f *Fake, funcs *deleter.Funcs) {
		correct := funcs.Delete
		funcs.Delete = func(ctx context.Context, target deleter.Target) (int, error) {
			f.SetActive(target, false)
			return correct(ctx, target)
		}
	}},
	{"count", "counts objects of another incarnation", func(f *Fake, funcs *deleter.Funcs) {
		correct := funcs.Count
		funcs.Count = func(ctx context.Context, target deleter.Target) (int, error) {
			return correct(ctx, (&mutant{Fake: f}).present(target))
		}
	}},
	{"count", "counts a neighbour", func(_ *Fake, funcs *deleter.Funcs) {
		correct := funcs.Count
		funcs.Count = func(ctx context.Context, target deleter.Target) (int, error) {
			n, err := correct(ctx, target)
			return n + 1, err
		}
	}},
	{"count", "deletes", func(_ *Fake, funcs *deleter.Funcs) {
		correct := funcs.Count
		funcs.Count = func(ctx context.Context, target deleter.Target) (int, error) {
			n, err := correct(ctx, target)
			_, _ = funcs.Delete(ctx, target)
			return n, err
		}
	}},
	{"view", "ignores the position", func(_ *Fake, funcs *deleter.Funcs) {
		correct := funcs.List
		funcs.List = func(ctx context.Context, target deleter.Target, _ string, limit int) ([]deleter.Item, error) {
			return correct(ctx, target, "", limit)
		}
	}},
	{"view", "ignores the limit", func(_ *Fake, funcs *deleter.Funcs) {
		correct := funcs.List
		funcs.List = func(ctx context.Context, target deleter.Target, after string, _ int) ([]deleter.Item, error) {
			return correct(ctx, target, after, 0)
		}
	}},
	{"failures", "hides failures", func(_ *Fake, funcs *deleter.Funcs) {
		correct := funcs.Count
		funcs.Count = func(ctx context.Context, target deleter.Target) (int, error) {
			n, err := correct(ctx, target)
			if errors.Is(err, errBeneath) {
				err = nil
			}
			return n, err
		}
	}},
	{"cancelled", "deletes although its context has ended", func(_ *Fake, funcs *deleter.Funcs) {
		correct := funcs.Delete
		funcs.Delete = func(ctx context.Context, target deleter.Target) (int, error) {
			return correct(context.WithoutCancel(ctx), target)
		}
	}},
}

func TestCasesFindBrokenFunctions(t *testing.T) {
	for _, broken := range brokenFunctions {
		t.Run(broken.fails+"/"+broken.defect, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := allCases()
				c := all[slices.IndexFunc(all, func(c testCase) bool { return c.name == broken.fails })]
				f := NewFake(nil)
				require.NoError(t, c.run(t.Context(), functionsOf(f, f.Funcs())), "the case must pass before anything is broken")
				f = NewFake(nil)
				funcs := f.Funcs()
				broken.breaks(f, &funcs)
				err := c.run(t.Context(), functionsOf(f, funcs))
				require.Error(t, err, "the case did not find the defect")
				require.NotContains(t, err.Error(), "the backend's", "the case failed for another reason")
				time.Sleep(20 * deadline)
			})
		})
	}
}
