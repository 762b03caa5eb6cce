// Package upgradetest runs a rolling upgrade over a store: two versions of a service with
// different resource types, and controllers of both. It looks for content that outlives
// its namespace (rule R7).
package upgradetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
)

// The types of content. The old version declares documents only.
var (
	documents = registry.Type{Group: "example.com", Version: "v1", Resource: "documents", Kind: "Document", Namespaced: true}
	invoices  = registry.Type{Group: "example.com", Version: "v1", Resource: "invoices", Kind: "Invoice", Namespaced: true}
)

const prefix = "registry"

// Options configures [Run].
type Options struct {
	// Open opens the store of one version; each version closes its own.
	Open func(ctx context.Context) (store.Store, error)
	// InTurn is for a store that only one process can open. The versions then alternate,
	// and each continues with the namespaces that the other left terminating.
	InTurn bool
	// Lives is the number of namespaces that are created and removed. The default is the
	// environment variable NSLIFECYCLE_LIVES, or 200.
	Lives int
}

// Result counts the events of an upgrade.
type Result struct {
	Lives   int // namespaces, each empty at creation
	Objects int // objects created
	Late    int // creates refused after termination
	Refused int // passes of the old version that failed with deleter.ErrUndeclared
	Retired int // times that the old version retired invoices
	InUse   int // times that it could not, because invoices were left
}

// String returns the counts in one line.
func (r Result) String() string {
	return fmt.Sprintf("%d lives, %d objects, %d creates refused late, %d passes refused, invoices retired %d times and in use %d times",
		r.Lives, r.Objects, r.Late, r.Refused, r.Retired, r.InUse)
}

// Run runs an upgrade and logs its [Result]. It fails if a new namespace has content, if
// [registrytest.Check] finds a violation at the end, or if the old version was never refused,
// since the run then proves nothing.
func Run(t testing.TB, o Options) Result {
	t.Helper()
	if o.Lives == 0 {
		o.Lives = 200
		if text := os.Getenv("NSLIFECYCLE_LIVES"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("NSLIFECYCLE_LIVES: %v", err)
			}
			o.Lives = n
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(o.Lives)*100*time.Millisecond)
	defer cancel()
	u := &upgrade{Options: o, seed: rand.Uint64()}
	run := u.together
	if o.InTurn {
		run = u.inTurn
	}
	err := run(ctx)
	if err == nil {
		err = u.check(ctx)
	}
	result := Result{
		Lives: int(u.lives.Load()), Objects: int(u.objects.Load()), Late: int(u.late.Load()),
		Refused: int(u.refused.Load()), Retired: int(u.retired.Load()), InUse: int(u.inUse.Load()),
	}
	t.Logf("seed %d: %v", u.seed, result)
	switch {
	case err != nil:
		t.Fatal(err)
	case result.Lives < o.Lives, result.Refused == 0, result.Objects == 0, result.Late == 0:
		t.Fatal("too little happened")
	}
	return result
}

// upgrade is one running upgrade.
type upgrade struct {
	Options
	seed                                          uint64
	lives, objects, late, refused, retired, inUse atomic.Int64
	left                                          []namespace.Namespace // left terminating by a version
}

func (u *upgrade) check(ctx context.Context) error {
	s, err := u.Open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(registrytest.Check(ctx, s, prefix), s.Close())
}

const workers = 16

// together runs both versions at the same time.
func (u *upgrade) together(ctx context.Context) (err error) {
	older, err := u.start(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, older.stop()) }()
	newer, err := u.start(ctx, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, newer.stop()) }()
	return u.each(ctx, func(ctx context.Context, worker int, random *rand.Rand) error {
		for n := worker; n < u.Lives; n += workers {
			if err := u.life(ctx, fmt.Sprint("tenant-", worker), random, newer, older, newer); err != nil {
				return err
			}
			if worker == 0 && random.IntN(20) == 0 {
				if err := u.retire(ctx, older); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// each runs f in all workers. If one fails it cancels the others.
func (u *upgrade) each(ctx context.Context, f func(ctx context.Context, worker int, random *rand.Rand) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			if err := f(ctx, worker, rand.New(rand.NewPCG(u.seed, uint64(worker)+uint64(u.lives.Load())<<8))); err != nil {
				stop(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// inTurn alternates the versions. Every third time the old version finds invoices retired,
// and its passes succeed.
func (u *upgrade) inTurn(ctx context.Context) error {
	const lives = 10 // of each worker in one turn
	for turn := 0; int(u.lives.Load()) < u.Lives || len(u.left) > 0; turn++ {
		last := int(u.lives.Load()) >= u.Lives
		version, err := u.start(ctx, turn%2 == 1)
		if err != nil {
			return err
		}
		err = u.takeOver(ctx, version)
		recorded := version.newer || len(u.left) > 0 // of invoices, which then fail the old version
		if err == nil && !last && (version.newer || !recorded) {
			err = u.each(ctx, func(ctx context.Context, worker int, random *rand.Rand) error {
				for range lives {
					if err := u.life(ctx, fmt.Sprint("tenant-", worker), random, version, version); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err == nil && version.newer && (last || turn%6 == 5) {
			err = u.retire(ctx, version)
		} else if err == nil && recorded && !last {
			version.end() // no controller empties the next namespaces
			err = u.leave(ctx, version, fmt.Sprint("left-", turn%2))
		}
		if err = errors.Join(err, version.stop()); err != nil {
			return err
		}
	}
	return nil
}

// takeOver waits until v has processed the remaining namespaces: the new version removes
// them, the old version is refused.
func (u *upgrade) takeOver(ctx context.Context, v *version) error {
	for _, n := range u.left {
		done := v.refused.wait
		if v.newer {
			done = v.registry.WaitRemoved
		}
		if err := done(ctx, n.Name, n.UID); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		if v.newer {
			u.lives.Add(1)
		}
	}
	if v.newer {
		u.left = nil
	}
	return nil
}

// leave creates namespaces with content and leaves them terminating.
func (u *upgrade) leave(ctx context.Context, v *version, name string) error {
	for i := range 4 {
		name := fmt.Sprint(name, "-", i)
		n, err := v.registry.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
		if errors.Is(err, namespace.ErrExists) {
			continue // left by an earlier turn
		}
		if err != nil {
			return err
		}
		for _, c := range v.content {
			if err := u.put(ctx, c, name); err != nil {
				return err
			}
		}
		if _, err := v.registry.Delete(ctx, name, namespace.Preconditions{}); err != nil {
			return err
		}
		u.left = append(u.left, n)
	}
	return nil
}

// life creates a namespace, fills it through versions, deletes it while creates go on, and
// waits for its removal through watcher, which declares all types of the versions.
func (u *upgrade) life(ctx context.Context, name string, random *rand.Rand, watcher *version, versions ...*version) error {
	any := func() *version { return versions[random.IntN(len(versions))] }
	n, err := any().registry.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: name}})
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	for _, c := range watcher.content {
		list, err := c.List(ctx, name, registry.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("R7: %s begins with %d %s", name, len(list.Items), c.Type().Resource)
		}
	}
	var contents []*registry.Content
	for _, v := range versions {
		contents = append(contents, v.content...)
	}
	for range random.IntN(4) {
		if err := u.put(ctx, contents[random.IntN(len(contents))], name); err != nil {
			return err
		}
	}
	late := contents[random.IntN(len(contents))]
	pouring := make(chan error, 1)
	go func() {
		for {
			if err := u.put(ctx, late, name); err != nil {
				pouring <- err
				return
			}
		}
	}()
	_, err = any().registry.Delete(ctx, name, namespace.Preconditions{UID: n.UID})
	if poured := <-pouring; errors.Is(poured, namespace.ErrTerminating) || errors.Is(poured, namespace.ErrNotFound) {
		u.late.Add(1)
	} else {
		err = errors.Join(err, poured)
	}
	if err == nil {
		err = watcher.registry.WaitRemoved(ctx, name, n.UID)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	u.lives.Add(1)
	return nil
}

func (u *upgrade) put(ctx context.Context, c *registry.Content, ns string) error {
	_, err := c.Create(ctx, ns, registry.Object{Meta: namespace.Meta{GenerateName: "o-"}})
	if err == nil {
		u.objects.Add(1)
	}
	return err
}

// retire retires invoices if no invoices exist at that moment.
func (u *upgrade) retire(ctx context.Context, v *version) error {
	err := v.registry.RetireType(ctx, invoices.Name(), "upgradetest")
	switch {
	case err == nil:
		u.retired.Add(1)
	case errors.Is(err, namespace.ErrConflict):
		u.inUse.Add(1)
	case !errors.Is(err, namespace.ErrNotFound):
		return err
	}
	return nil
}
