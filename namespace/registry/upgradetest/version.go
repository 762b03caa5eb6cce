package upgradetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// version is one version of the service, with its controller.
type version struct {
	newer    bool
	store    store.Store
	registry *registry.Registry
	content  []*registry.Content
	refused  *marks // namespaces with a refused pass
	cancel   context.CancelFunc
	ended    chan error
}

// start opens the store and starts a version.
func (u *upgrade) start(ctx context.Context, newer bool) (v *version, err error) {
	types := []registry.Type{documents}
	if newer {
		types = append(types, invoices)
	}
	v = &version{newer: newer, refused: &marks{}, ended: make(chan error, 1)}
	if v.store, err = u.Open(ctx); err != nil {
		return nil, err
	}
	if v.registry, err = registry.New(v.store, &registry.Options{Prefix: prefix, Types: types}); err != nil {
		return nil, errors.Join(err, v.store.Close())
	}
	for _, t := range types {
		c, err := v.registry.Content(t.Name())
		if err != nil {
			return nil, errors.Join(err, v.close())
		}
		v.content = append(v.content, c)
	}
	c, err := u.controller(v)
	if err != nil {
		return nil, errors.Join(err, v.close())
	}
	ctx, v.cancel = context.WithCancel(ctx)
	go func() { v.ended <- c.Run(ctx) }()
	return v, nil
}

func (u *upgrade) controller(v *version) (*controller.Controller, error) {
	d, err := v.registry.Deleter(nil)
	if err != nil {
		return nil, err
	}
	return controller.New(v.registry, d, namespace.Party{Finalizer: finalizer.Kubernetes}, &controller.Options{Hooks: []controller.Hooks{{
		PassEnded: func(_ context.Context, ref namespace.Ref, _ pass.Result, err error, _ time.Duration) {
			if errors.Is(err, deleter.ErrUndeclared) {
				u.refused.Add(1)
				v.refused.set(ref.UID)
			}
		},
	}}})
}

// end ends the controller.
func (v *version) end() {
	v.cancel()
	v.ended <- <-v.ended // for stop
}

// stop ends the controller and closes the store.
func (v *version) stop() error {
	v.cancel()
	err := <-v.ended
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, v.close())
}

func (v *version) close() error { return errors.Join(v.registry.Close(), v.store.Close()) }

// marks is a set of incarnations that a caller can wait for.
type marks struct {
	mu   sync.Mutex
	done map[string]chan struct{}
}

func (m *marks) of(uid string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done == nil {
		m.done = map[string]chan struct{}{}
	}
	if m.done[uid] == nil {
		m.done[uid] = make(chan struct{})
	}
	return m.done[uid]
}

func (m *marks) set(uid string) {
	done := m.of(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-done:
	default:
		close(done)
	}
}

func (m *marks) wait(ctx context.Context, _, uid string) error {
	select {
	case <-m.of(uid):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
