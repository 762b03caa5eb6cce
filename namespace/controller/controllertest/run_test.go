package controllertest

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

func backend(h *Host, namespaces controller.Namespaces) Backend {
	return Backend{
		Namespaces: namespaces,
		Create:     h.Create,
		Delete: func(ctx context.Context, name string) error {
			_, err := h.Delete(ctx, name)
			return err
		},
		Forget: h.Forget,
		Ahead: func(context.Context) (string, error) {
			_, revision := h.list()
			return strconv.FormatInt(revision+1000, 10), nil
		},
	}
}

func TestHost(t *testing.T) {
	Run(t, func(t *testing.T) Backend {
		h := new(Host)
		return backend(h, h)
	})
}

func TestIntercept(t *testing.T) {
	Run(t, func(t *testing.T) Backend {
		h := new(Host)
		return backend(h, &Intercept{Namespaces: h})
	})
}

// A storage without a watch passes the cases about reads and writes; the others are skipped.
func TestHostWithoutWatch(t *testing.T) {
	Run(t, func(t *testing.T) Backend {
		h := new(Host)
		b := backend(h, h)
		b.Namespaces = struct{ pass.Namespaces }{h}
		return b
	})
}

// mutant is a Host with one fault.
type mutant struct {
	*Host
	get          func(ctx context.Context, name string) (namespace.Namespace, error)
	updateStatus func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
	finalize     func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error)
	terminating  func(ctx context.Context, after string) iter.Seq2[namespace.Event, error]
	delete       func(ctx context.Context, name string) error // nil: the Host's
}

func (m *mutant) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	if m.get != nil {
		return m.get(ctx, name)
	}
	return m.Host.Get(ctx, name)
}

func (m *mutant) UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	if m.updateStatus != nil {
		return m.updateStatus(ctx, ns)
	}
	return m.Host.UpdateStatus(ctx, ns)
}

func (m *mutant) Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	if m.finalize != nil {
		return m.finalize(ctx, ns)
	}
	return m.Host.Finalize(ctx, ns)
}

func (m *mutant) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	if m.terminating != nil {
		return m.terminating(ctx, after)
	}
	return m.Host.Terminating(ctx, after)
}

// latest returns ns at the resourceVersion that is stored.
func (m *mutant) latest(ns namespace.Namespace) namespace.Namespace {
	if now, ok := m.namespaces[ns.Name]; ok {
		ns.ResourceVersion = now.ResourceVersion
	}
	return ns
}

// moved is write that takes the deletionTimestamp of ns along.
func (m *mutant) moved(
	ns namespace.Namespace, write func(context.Context, namespace.Namespace) (namespace.Namespace, error),
) func(context.Context, namespace.Namespace) (namespace.Namespace, error) {
	return func(ctx context.Context, _ namespace.Namespace) (namespace.Namespace, error) {
		written, err := write(ctx, ns)
		if err == nil {
			written.DeletionTimestamp = ns.DeletionTimestamp
			m.namespaces[ns.Name] = written
		}
		return written, err
	}
}

// filtered is the watch of a Host whose events keep may hold back or change.
func (m *mutant) filtered(keep func(after string, e namespace.Event) (namespace.Event, bool)) {
	m.terminating = func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
		return func(yield func(namespace.Event, error) bool) {
			for e, err := range m.Host.Terminating(ctx, after) {
				if err == nil {
					var ok bool
					if e, ok = keep(after, e); !ok {
						continue
					}
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// mutants are the faults, by the case that finds them.
var mutants = []struct {
	fault string
	finds string
	plant func(m *mutant)
}{
	{"a missing namespace is the zero one", "get of a missing namespace is not found", func(m *mutant) {
		m.get = func(ctx context.Context, name string) (namespace.Namespace, error) {
			ns, err := m.Host.Get(ctx, name)
			if errors.Is(err, namespace.ErrNotFound) {
				return ns, nil
			}
			return ns, err
		}
	}},
	{"get loses the deletion", "get returns the created and the deleted namespace", func(m *mutant) {
		m.get = func(ctx context.Context, name string) (namespace.Namespace, error) {
			ns, err := m.Host.Get(ctx, name)
			ns.DeletionTimestamp.Time = time.Time{}
			return ns, err
		}
	}},
	{"get hands out what is stored", "results are not aliased", func(m *mutant) {
		m.get = func(_ context.Context, name string) (namespace.Namespace, error) { return m.namespaces[name], nil }
	}},
	{"a status write hands out what it stored", "results are not aliased", func(m *mutant) {
		m.updateStatus = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			_, err := m.Host.UpdateStatus(ctx, ns)
			return m.namespaces[ns.Name], err
		}
	}},
	{"a status write takes the finalizers along", "status writes the status only", func(m *mutant) {
		m.updateStatus = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			written, err := m.Host.UpdateStatus(ctx, ns)
			if err != nil {
				return written, err
			}
			return m.Host.Finalize(ctx, withFinalizers(written, ns.Spec.Finalizers))
		}
	}},
	{"finalize takes the status along", "finalize writes the finalizers only", func(m *mutant) {
		m.finalize = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			written, err := m.Host.UpdateStatus(ctx, ns)
			if err != nil {
				return written, err
			}
			return m.Host.Finalize(ctx, withFinalizers(written, ns.Spec.Finalizers))
		}
	}},
	{"status writes are unconditional", "a stale status write is a conflict", func(m *mutant) {
		m.updateStatus = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			return m.Host.UpdateStatus(ctx, m.latest(ns))
		}
	}},
	{"finalize is unconditional", "a stale finalize is a conflict", func(m *mutant) {
		m.finalize = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			return m.Host.Finalize(ctx, m.latest(ns))
		}
	}},
	{"the uid of a status write is not looked at", "writes for another incarnation are refused", func(m *mutant) {
		m.updateStatus = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			ns.UID = m.namespaces[ns.Name].UID
			return m.Host.UpdateStatus(ctx, ns)
		}
	}},
	{"the uid of a finalize is not looked at", "writes for another incarnation are refused", func(m *mutant) {
		m.finalize = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			ns.UID = m.namespaces[ns.Name].UID
			return m.Host.Finalize(ctx, ns)
		}
	}},
	{"a write to a missing namespace is a conflict", "writes to a missing namespace are not found", func(m *mutant) {
		m.updateStatus = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			if _, ok := m.namespaces[ns.Name]; !ok {
				return namespace.Namespace{}, namespace.ErrConflict
			}
			return m.Host.UpdateStatus(ctx, ns)
		}
	}},
	{"a status write brings back what was removed", "writes to a missing namespace are not found", func(m *mutant) {
		m.updateStatus = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			if _, ok := m.namespaces[ns.Name]; !ok {
				m.namespaces[ns.Name] = ns
				return ns, nil
			}
			return m.Host.UpdateStatus(ctx, ns)
		}
	}},
	{"removal needs a further request", "the last finalizer removes in the same write", func(m *mutant) {
		m.finalize = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			removed, err := m.Host.Finalize(ctx, ns)
			if err == nil && namespace.Removable(removed) {
				m.namespaces[ns.Name] = removed
			}
			return removed, err
		}
	}},
	{"metadata.finalizers are ignored", "metadata.finalizers hold a namespace", func(m *mutant) {
		m.finalize = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			written, err := m.Host.Finalize(ctx, ns)
			if err == nil && written.Spec.Finalizers.IsZero() && !written.DeletionTimestamp.IsZero() {
				delete(m.namespaces, ns.Name)
			}
			return written, err
		}
	}},
	{"a status write moves deletionTimestamp", "deletionTimestamp never changes", func(m *mutant) {
		m.updateStatus = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			return m.moved(ns, m.Host.UpdateStatus)(ctx, ns)
		}
	}},
	{"finalize moves deletionTimestamp", "deletionTimestamp never changes", func(m *mutant) {
		m.finalize = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			return m.moved(ns, m.Host.Finalize)(ctx, ns)
		}
	}},
	{"a second delete moves deletionTimestamp", "deletionTimestamp never changes", func(m *mutant) {
		m.delete = func(ctx context.Context, name string) error {
			ns, err := m.Host.Delete(ctx, name)
			ns.DeletionTimestamp.Time = time.Now().Truncate(time.Second)
			m.namespaces[name] = ns
			return err
		}
	}},
	{"the token is read after the listing", "nothing is lost between the listing and the watch", func(m *mutant) {
		m.terminating = func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
			if after != "" {
				return m.Host.Terminating(ctx, after)
			}
			return func(yield func(namespace.Event, error) bool) {
				events, _ := m.list()
				time.Sleep(time.Millisecond) // of another transaction
				_, revision := m.list()
				events = append(events, namespace.Event{Type: namespace.EventSynced, Token: strconv.FormatInt(revision, 10)})
				for _, e := range events {
					if !yield(e, nil) {
						return
					}
				}
			}
		}
		m.delete = func(ctx context.Context, name string) error {
			time.Sleep(time.Millisecond)
			_, err := m.Host.Delete(ctx, name)
			return err
		}
	}},
	{"a token of the future is waited for", "a token that was never issued is gone", func(m *mutant) {
		m.terminating = func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
			_, revision := m.list()
			if cursor, err := strconv.ParseInt(after, 10, 64); err != nil || cursor <= revision {
				return m.Host.Terminating(ctx, after)
			}
			return func(yield func(namespace.Event, error) bool) {
				<-ctx.Done()
				yield(namespace.Event{}, context.Cause(ctx))
			}
		}
	}},
	{"a token of the future is taken for the latest", "a token that was never issued is gone", func(m *mutant) {
		m.terminating = func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
			_, revision := m.list()
			if cursor, err := strconv.ParseInt(after, 10, 64); err == nil && cursor > revision {
				after = strconv.FormatInt(revision, 10)
			}
			return m.Host.Terminating(ctx, after)
		}
	}},
	{"finalize removes active namespaces too", "an active namespace without finalizers stays", func(m *mutant) {
		m.finalize = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			written, err := m.Host.Finalize(ctx, ns)
			if written.Spec.Finalizers.IsZero() {
				delete(m.namespaces, ns.Name)
			}
			return written, err
		}
	}},
	{"status writes do not look at the context", "a cancelled context changes nothing", func(m *mutant) {
		m.updateStatus = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			return m.Host.UpdateStatus(context.WithoutCancel(ctx), ns)
		}
	}},
	{"finalize is done and then refused", "a cancelled context changes nothing", func(m *mutant) {
		m.finalize = func(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
			written, err := m.Host.Finalize(context.WithoutCancel(ctx), ns)
			if ctx.Err() != nil {
				return namespace.Namespace{}, ctx.Err()
			}
			return written, err
		}
	}},
	{"the listing leaves one out", "the watch lists the terminating namespaces, then is synced", func(m *mutant) {
		m.filtered(func(after string, e namespace.Event) (namespace.Event, bool) {
			return e, after != "" || e.Name != "b"
		})
	}},
	{"synced comes without a token", "the watch lists the terminating namespaces, then is synced", func(m *mutant) {
		m.filtered(func(_ string, e namespace.Event) (namespace.Event, bool) {
			if e.Type == namespace.EventSynced {
				e.Token = ""
			}
			return e, true
		})
	}},
	{"synced never comes", "the watch lists the terminating namespaces, then is synced", func(m *mutant) {
		m.filtered(func(_ string, e namespace.Event) (namespace.Event, bool) {
			return e, e.Type != namespace.EventSynced
		})
	}},
	{"removals are not reported", "the watch reports terminations and removals", func(m *mutant) {
		m.filtered(func(_ string, e namespace.Event) (namespace.Event, bool) {
			return e, e.Type != namespace.EventAbsent
		})
	}},
	{"removals come without the uid", "the watch reports terminations and removals", func(m *mutant) {
		m.filtered(func(_ string, e namespace.Event) (namespace.Event, bool) {
			if e.Type == namespace.EventAbsent {
				e.UID = ""
			}
			return e, true
		})
	}},
	{"an added finalizer is not reported", "the watch reports an added finalizer", func(m *mutant) {
		known := map[string]bool{}
		m.filtered(func(_ string, e namespace.Event) (namespace.Event, bool) {
			again := known[e.UID] && e.Type == namespace.EventPresent
			known[e.UID] = true
			return e, !again
		})
	}},
	{"a token points before its event", "the watch resumes at every token without gap or repetition", func(m *mutant) {
		last := ""
		m.filtered(func(_ string, e namespace.Event) (namespace.Event, bool) {
			e.Token, last = last, e.Token
			return e, true
		})
	}},
	{"a resumed watch lists again", "the watch resumes at every token without gap or repetition", func(m *mutant) {
		m.terminating = func(ctx context.Context, _ string) iter.Seq2[namespace.Event, error] {
			return m.Host.Terminating(ctx, "")
		}
	}},
	{"an old token is taken for the latest", "a token that is too old is gone", func(m *mutant) {
		m.terminating = func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
			if after != "" {
				_, revision := m.list()
				after = strconv.FormatInt(revision, 10)
			}
			return m.Host.Terminating(ctx, after)
		}
	}},
	{"the watch does not look at its context", "the watch ends with its context", func(m *mutant) {
		m.terminating = func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
			outer, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), 2*time.Minute, errDeadline)
			_ = cancel // it ends by its deadline
			return m.Host.Terminating(outer, after)
		}
	}},
	{"the watch ends without an error", "the watch ends with its context", func(m *mutant) {
		m.terminating = func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
			return func(yield func(namespace.Event, error) bool) {
				for e, err := range m.Host.Terminating(ctx, after) {
					if err != nil || !yield(e, nil) {
						return
					}
				}
			}
		}
	}},
	{"one watch at a time, and a break does not end it", "the watch ends with a break", func(m *mutant) {
		watching := false
		m.terminating = func(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
			return func(yield func(namespace.Event, error) bool) {
				if watching {
					<-ctx.Done()
					yield(namespace.Event{}, context.Cause(ctx))
					return
				}
				watching = true
				m.Host.Terminating(ctx, after)(yield)
			}
		}
	}},
}

func TestEveryCaseFindsItsMutants(t *testing.T) {
	found := map[string]int{}
	for _, m := range mutants {
		for _, c := range cases {
			if c.name != m.finds {
				continue
			}
			found[c.name]++
			t.Run(m.fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					broken := &mutant{Host: new(Host)}
					m.plant(broken)
					b := backend(broken.Host, broken)
					if broken.delete != nil {
						b.Delete = broken.delete
					}
					began := time.Now()
					err := c.run(t.Context(), b, Deadline)
					require.LessOrEqual(t, time.Since(began), Deadline+Deadline/10, "it must fail within seconds")
					time.Sleep(time.Hour) // of virtual time, in which what hangs ends
					require.Error(t, err, "case %q did not find it", c.name)
					t.Log(err)
				})
			})
		}
	}
	for _, c := range cases {
		require.NotZero(t, found[c.name], "no mutant proves that case %q can fail", c.name)
		delete(found, c.name)
	}
	require.Empty(t, found)
}

func TestInterceptFails(t *testing.T) {
	h := new(Host)
	_, err := h.Create(t.Context(), named("a", own))
	require.NoError(t, err)
	ns, err := h.Delete(t.Context(), "a")
	require.NoError(t, err)

	broken := errors.New("broken")
	before := &Intercept{Namespaces: h, Before: func(context.Context, Op, string) error { return broken }}
	_, err = before.Finalize(t.Context(), withFinalizers(ns, finalizer.Set{}))
	require.ErrorIs(t, err, broken)
	require.Equal(t, 1, h.Len(), "a call that fails before has no effect")
	for _, err := range before.Terminating(t.Context(), "") {
		require.ErrorIs(t, err, broken)
	}

	after := &Intercept{Namespaces: h, After: func(context.Context, Op, string) error { return broken }}
	for _, err := range after.Terminating(t.Context(), "") {
		require.ErrorIs(t, err, broken)
	}
	_, err = after.Finalize(t.Context(), withFinalizers(ns, finalizer.Set{}))
	require.ErrorIs(t, err, broken)
	require.Zero(t, h.Len(), "a call that fails after had its effect")
}

func TestBadInput(t *testing.T) {
	h := new(Host)
	for _, name := range []string{"", "..", "a/b", "\xff", string(make([]byte, 1000))} {
		_, err := h.Create(t.Context(), named(name))
		require.ErrorIs(t, err, namespace.ErrInvalid, "%.20q", name)
		_, err = h.Get(t.Context(), name)
		require.ErrorIs(t, err, namespace.ErrNotFound)
		_, err = h.Delete(t.Context(), name)
		require.ErrorIs(t, err, namespace.ErrNotFound)
	}
	require.Zero(t, h.Len())
	for _, after := range []string{"x", "-1", "99", "\xff"} {
		for _, err := range h.Terminating(t.Context(), after) {
			require.ErrorIs(t, err, namespace.ErrGone, "%q", after)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var none context.Context
	for ctx, want := range map[context.Context]error{ended: context.Canceled, none: namespace.ErrBadRequest} {
		_, err := h.Create(ctx, named("a"))
		require.ErrorIs(t, err, want)
		_, err = h.Get(ctx, "a")
		require.ErrorIs(t, err, want)
		_, err = h.Delete(ctx, "a")
		require.ErrorIs(t, err, want)
		_, err = h.Finalize(ctx, named("a"))
		require.ErrorIs(t, err, want)
		_, err = h.UpdateStatus(ctx, named("a"))
		require.ErrorIs(t, err, want)
		for _, err := range h.Terminating(ctx, "5") {
			require.Error(t, err)
		}
		require.Zero(t, h.Len())
	}
	good := backend(h, h)
	require.NoError(t, good.check())
	for _, bad := range []Backend{
		{},
		{Create: good.Create, Delete: good.Delete},
		{Namespaces: h, Delete: good.Delete},
		{Namespaces: h, Create: good.Create},
	} {
		require.Error(t, bad.check())
	}
}
