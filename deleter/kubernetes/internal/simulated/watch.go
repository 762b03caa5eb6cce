package simulated

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// history is the number of changes kept for watches that begin in the past.
const history = 4096

// feed notifies watchers of changes. The lock of the changing state guards it.
type feed[C any] struct {
	changes  []numbered[C]
	forgot   uint64 // changes up to this revision are dropped
	watchers []*watcher[C]
	room     int // maximum number of pending events of a watcher
}

type numbered[C any] struct {
	revision uint64
	change   C
}

// add adds a change. It ends watchers that are too slow, as servers do.
func (f *feed[C]) add(revision uint64, change C) {
	if len(f.changes) == history {
		f.forgot = f.changes[history/2-1].revision
		f.changes = append([]numbered[C](nil), f.changes[history/2:]...)
	}
	f.changes = append(f.changes, numbered[C]{revision, change})
	kept := f.watchers[:0]
	for _, w := range f.watchers {
		if w.send(change) {
			kept = append(kept, w)
		}
	}
	clear(f.watchers[len(kept):])
	f.watchers = kept
}

// watch returns a watcher of the changes after a revision. render converts them to events. The
// watcher ends with ctx.
func (f *feed[C]) watch(ctx context.Context, after string, lock sync.Locker, render func(C) (watch.Event, bool)) (*watcher[C], error) {
	from, err := strconv.ParseUint(after, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion %q: a watch begins at the number of a list", after))
	}
	if from < f.forgot {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, f.forgot))
	}
	past := f.changes
	for len(past) > 0 && past[0].revision <= from {
		past = past[1:]
	}
	w := &watcher[C]{lock: lock, feed: f, render: render, events: make(chan watch.Event, len(past)+f.room)}
	for _, c := range past {
		w.send(c.change)
	}
	f.watchers = append(f.watchers, w)
	w.detach = context.AfterFunc(ctx, w.Stop)
	return w, nil
}

// watcher is a watch. It has no goroutines.
type watcher[C any] struct {
	lock   sync.Locker // of the watched state
	feed   *feed[C]
	render func(C) (watch.Event, bool)
	events chan watch.Event
	ended  bool
	detach func() bool
}

// send queues an event. It returns false if the watch has ended.
func (w *watcher[C]) send(change C) bool {
	event, ok := w.render(change)
	if !ok {
		return true
	}
	select {
	case w.events <- event:
		return true
	default:
		w.ended = true
		close(w.events)
		return false
	}
}

// ResultChan implements [watch.Interface].
func (w *watcher[C]) ResultChan() <-chan watch.Event { return w.events }

// Stop implements [watch.Interface].
func (w *watcher[C]) Stop() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.detach()
	if w.ended {
		return
	}
	w.ended = true
	close(w.events)
	for i, other := range w.feed.watchers {
		if other == w {
			w.feed.watchers = append(w.feed.watchers[:i], w.feed.watchers[i+1:]...)
			return
		}
	}
}

// quiet is a watch without events, for a namespace that does not exist.
func quiet(ctx context.Context) watch.Interface {
	f := feed[struct{}]{room: 1}
	var mu sync.Mutex
	mu.Lock()
	defer mu.Unlock()
	w, _ := f.watch(ctx, "0", &mu, func(struct{}) (watch.Event, bool) { return watch.Event{}, false })
	return w
}
