package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	churnWriters = 8
	churnChanges = 5000
)

// Eight writers make 5,000 changes. Meanwhile the server restarts with the same store and port.
// In the end an informer that resyncs has the same objects as a list, and each of its
// notifications follows from the previous one. A plain watch that resumes from its last version
// delivers every acknowledged change once and in order.
func TestInformerThroughRestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &churn{plan: plan{file: filepath.Join(t.TempDir(), "churn.db")}, seen: make(chan struct{}, 1)}
	c.up = make(chan struct{})
	c.start(t)
	clients := c.host.typed(t, mediaProtobuf)
	c.maps = clients.CoreV1().ConfigMaps("default")

	factory := informers.NewSharedInformerFactory(clients, 100*time.Millisecond)
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(c.handler(t))
	require.NoError(t, err)
	informing, end := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer end()
	factory.StartWithContext(informing)
	require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))

	begin, err := c.maps.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	watched := make(chan error, 1)
	watching, endWatch := context.WithCancel(ctx)
	defer endWatch()
	go func() { watched <- c.follow(watching, begin.ResourceVersion) }()

	var group errgroup.Group
	for i := range churnWriters {
		group.Go(func() error { return c.write(ctx, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	c.await(t, ctx, "half of the changes", func() bool { return c.done.Load() >= churnChanges/2 })
	c.restart(t)
	require.NoError(t, group.Wait())

	list, err := c.maps.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	want := map[string]string{}
	for _, o := range list.Items {
		want[o.Name] = o.ResourceVersion
	}
	c.await(t, ctx, "the cache equals the list", func() bool {
		got := map[string]string{}
		for _, o := range informer.GetStore().List() {
			m := o.(*corev1.ConfigMap)
			got[m.Name] = m.ResourceVersion
		}
		return cmp.Equal(want, got) && cmp.Equal(want, c.noticed())
	})
	c.await(t, ctx, "the watch has seen every change", func() bool { return len(c.unseen()) == 0 })
	endWatch()
	require.NoError(t, <-watched)
	end()
	factory.Shutdown()
	require.Empty(t, c.faulted())
	t.Logf("%d changes, %d of them answered; the watch saw %d, in %d connections", c.done.Load(), len(c.answered), len(c.events), c.connections)
}

// churn is a host under load.
type churn struct {
	plan plan
	host *host
	maps typedcorev1.ConfigMapInterface
	done atomic.Int64  // changes
	seen chan struct{} // signals an event or a change

	mu          sync.Mutex
	up          chan struct{} // closed when the server is up again after its restart
	notices     map[string]string
	answered    map[uint64]bool // resourceVersions in responses to writers
	events      map[uint64]bool // resourceVersions of the watch's events
	connections int
	faults      []string
}

func (c *churn) start(t *testing.T) {
	c.host = c.plan.start(t)
	c.plan.listen = strings.TrimPrefix(c.host.address, "http://")
	c.notices, c.answered, c.events = map[string]string{}, map[uint64]bool{}, map[uint64]bool{}
}

// restart stops the server and starts it again.
func (c *churn) restart(t *testing.T) {
	require.NoError(t, c.host.stop())
	c.host = c.plan.start(t)
	close(c.up)
}

func (c *churn) ping() {
	select {
	case c.seen <- struct{}{}:
	default:
	}
}

// await checks a condition after each event and change.
func (c *churn) await(t *testing.T, ctx context.Context, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-c.seen:
		case <-ctx.Done():
			t.Fatalf("not in time: %s; faults: %v, unseen: %v", what, c.faulted(), c.unseen())
		}
	}
}

func (c *churn) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (c *churn) faulted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faults)
}

// noticed returns the objects according to the informer's notifications.
func (c *churn) noticed() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := map[string]string{}
	for name, version := range c.notices {
		copied[name] = version
	}
	return copied
}

// unseen returns the acknowledged changes that the watch has not delivered.
func (c *churn) unseen() (versions []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for version := range c.answered {
		if !c.events[version] {
			versions = append(versions, version)
		}
	}
	return versions
}

func versionOf(o metav1.Object) uint64 {
	version, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64) // zero is older than all others
	return version
}

// handler checks that each notification follows from the previous ones.
func (c *churn) handler(t *testing.T) cache.ResourceEventHandler {
	set := func(o *corev1.ConfigMap, check func(before string, known bool) string) {
		defer c.ping()
		c.mu.Lock()
		before, known := c.notices[o.Name]
		why := check(before, known)
		c.notices[o.Name] = o.ResourceVersion
		c.mu.Unlock()
		if why != "" {
			c.fault("%s at %s: %s", o.Name, o.ResourceVersion, why)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			set(o.(*corev1.ConfigMap), func(before string, known bool) string {
				if known {
					return "added, and was there at " + before
				}
				return ""
			})
		},
		UpdateFunc: func(old, now any) {
			from, to := old.(*corev1.ConfigMap), now.(*corev1.ConfigMap)
			set(to, func(before string, known bool) string {
				switch {
				case !known:
					return "updated, and was not there"
				case before != from.ResourceVersion:
					return "updated from " + from.ResourceVersion + ", and was at " + before
				case versionOf(to) < versionOf(from):
					return "went back from " + from.ResourceVersion
				}
				return ""
			})
		},
		DeleteFunc: func(o any) {
			defer c.ping()
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			m := o.(*corev1.ConfigMap)
			c.mu.Lock()
			_, known := c.notices[m.Name]
			delete(c.notices, m.Name)
			c.mu.Unlock()
			if !known {
				c.fault("%s deleted at %s, and was not there", m.Name, m.ResourceVersion)
			}
		},
	}
}

// follow watches from a version, and resumes from the last event, until ctx ends.
func (c *churn) follow(ctx context.Context, version string) error {
	alive := map[string]bool{}
	for ctx.Err() == nil {
		w, err := c.maps.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			return fmt.Errorf("the watch from %s is refused: %w", version, err)
		}
		if err != nil { // the server is restarting
			if !c.waitUp(ctx) {
				return nil
			}
			continue
		}
		c.mu.Lock()
		c.connections++
		c.mu.Unlock()
		for e := range w.ResultChan() {
			o, ok := e.Object.(*corev1.ConfigMap)
			if ctx.Err() != nil {
				break // client-go sends an error then
			}
			if !ok {
				return fmt.Errorf("the watch got %v: %v", e.Type, e.Object)
			}
			if e.Type != watch.Bookmark {
				c.hear(e.Type, o, version, alive)
			}
			version = o.ResourceVersion
		}
		w.Stop()
	}
	return nil
}

// hear checks one event of the watch.
func (c *churn) hear(kind watch.EventType, o *corev1.ConfigMap, after string, alive map[string]bool) {
	defer c.ping()
	if last, _ := strconv.ParseUint(after, 10, 64); versionOf(o) <= last {
		c.fault("%s %s at %s came after %s", kind, o.Name, o.ResourceVersion, after)
	}
	if alive[o.Name] != (kind != watch.Added) {
		c.fault("%s %s at %s, which was there: %v", kind, o.Name, o.ResourceVersion, alive[o.Name])
	}
	alive[o.Name] = kind != watch.Deleted
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[versionOf(o)] = true
}

// waitUp waits until the restart is over. It returns false if ctx ends first.
func (c *churn) waitUp(ctx context.Context) bool {
	select {
	case <-c.up:
		return true
	case <-ctx.Done():
		return false
	}
}

// write makes its share of the changes, to objects that no other writer changes.
func (c *churn) write(ctx context.Context, writer int, random *rand.Rand) error {
	for range churnChanges / churnWriters {
		name := fmt.Sprintf("writer-%d-%02d", writer, random.IntN(20))
		value := strconv.FormatUint(random.Uint64(), 36)
		remove := random.IntN(4) == 0
		for {
			err := c.change(ctx, name, value, remove)
			if err == nil {
				break
			}
			// Without an answer of the server, the cause is its restart.
			if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown || !c.waitUp(ctx) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		c.done.Add(1)
		c.ping()
	}
	return nil
}

// change creates, updates or deletes an object of one writer.
func (c *churn) change(ctx context.Context, name, value string, remove bool) error {
	o, err := c.maps.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		o, err = c.maps.Create(ctx, newConfigMap(name, map[string]string{"value": value}), metav1.CreateOptions{})
	case err != nil:
		return err
	case remove:
		return c.maps.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID}})
	default:
		o.Data["value"] = value
		o, err = c.maps.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered[versionOf(o)] = true
	return nil
}
