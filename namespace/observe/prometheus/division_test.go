package prometheus_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// half divides the work between two controllers, which can swap.
type half struct {
	mu      sync.Mutex
	even    bool
	changed chan struct{}
}

func (d *half) Owns(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return (name[len(name)-1]%2 == 0) == d.even
}

func (d *half) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

func (d *half) turn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.even = !d.even
	close(d.changed)
	d.changed = make(chan struct{})
}

// Each replica exports its own namespaces, also after work has moved between replicas: the
// sum contains every namespace and every removal once.
func TestDivision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		divisions := []*half{{even: true, changed: make(chan struct{})}, {changed: make(chan struct{})}}
		var replicas []exported
		for _, d := range divisions {
			e := export(t, agent, nil)
			w.run(t, controller.Options{Hooks: []controller.Hooks{e.Hooks()}, Division: d})
			replicas = append(replicas, e)
		}
		const many = 7
		var targets []deleter.Target
		for i := range many {
			targets = append(targets, w.terminate(t, fmt.Sprint("tenant-", i), "x"))
		}
		sum := func(name string, want ...string) {
			t.Helper()
			synctest.Wait()
			for i, e := range replicas {
				require.Equal(t, []string{name + " " + want[i]}, e.of(t, strings.Split(name, "{")[0])[:1])
			}
		}
		const deleting = `namespace_terminating{stage="DeletingContent"}`
		sum(deleting, "4", "3")
		for _, d := range divisions {
			d.turn()
		}
		time.Sleep(time.Hour)
		sum(deleting, "3", "4")
		for _, target := range targets {
			w.content.Release(target, "x")
		}
		time.Sleep(time.Hour)
		sum(deleting, "0", "0")
		sum("namespace_deletion_duration_seconds_count", "3", "4")
		sum("namespace_controller_queue_depth", "0", "0")
	})
}

// Two controllers of one process share a collector: when work moves between them, no namespace
// is lost or counted twice.
func TestDivisionInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := newWorld(t, nil), export(t, agent, nil)
		divisions := []*half{{even: true, changed: make(chan struct{})}, {changed: make(chan struct{})}}
		for _, d := range divisions {
			w.run(t, controller.Options{Hooks: []controller.Hooks{e.Hooks()}, Division: d})
		}
		const many = 7
		var targets []deleter.Target
		for i := range many {
			targets = append(targets, w.terminate(t, fmt.Sprint("tenant-", i), "x"))
		}
		for range 10 {
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Contains(t, e.of(t, terminating), fmt.Sprintf(terminating+`{stage="DeletingContent"} %d`, many))
			for _, d := range divisions {
				d.turn()
			}
		}
		for _, target := range targets {
			w.content.Release(target, "x")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Contains(t, e.of(t, terminating), terminating+`{stage="DeletingContent"} 0`)
		require.Equal(t, []string{fmt.Sprint(durations+"_count ", many)}, e.of(t, durations+"_count"))
		require.Equal(t, []string{"namespace_controller_queue_depth 0"}, e.of(t, "namespace_controller_queue_depth"))
	})
}
