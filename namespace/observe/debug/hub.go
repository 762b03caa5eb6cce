package debug

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"
)

// hub brings open pages up to date. It reads for all of them at once, in one goroutine
// that lives while there are any.
type hub struct {
	render   func(ctx context.Context, topic string) ([]byte, error)
	interval time.Duration
	most     int // viewers

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	latest  map[string]*reading // by topic: what was read last
	stop    context.CancelFunc  // ends the goroutine; nil: there is none
	wake    chan struct{}       // tells that goroutine of a new topic
	running sync.WaitGroup
	closed  chan struct{}
	ended   bool
}

// reading is what was read of a topic.
type reading struct {
	fragment []byte
	still    [sha256.Size]byte // of what it tells
	told     time.Time         // when viewers were told of that last
}

// viewer is one open page.
type viewer struct {
	topic   string
	changed chan struct{} // there is something to tell it
}

func (b *hub) init(render func(context.Context, string) ([]byte, error), interval time.Duration, most int) {
	b.render, b.interval, b.most = render, interval, most
	b.viewers = map[*viewer]struct{}{}
	b.latest = map[string]*reading{}
	b.closed = make(chan struct{})
}

// join adds a viewer, unless there are too many.
func (b *hub) join(topic string) (*viewer, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || len(b.viewers) >= b.most {
		return nil, false
	}
	v := &viewer{topic: topic, changed: make(chan struct{}, 1)}
	b.viewers[v] = struct{}{}
	switch {
	case b.stop == nil:
		ctx, cancel := context.WithCancel(context.Background())
		wake := make(chan struct{}, 1)
		b.stop, b.wake = cancel, wake
		b.running.Go(func() { b.run(ctx, wake) })
	case b.latest[topic] != nil:
		v.changed <- struct{}{}
	default:
		notify(b.wake)
	}
	return v, true
}

// leave takes a viewer off. With the last one the goroutine ends.
func (b *hub) leave(v *viewer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.viewers, v)
	for other := range b.viewers {
		if other.topic == v.topic {
			return
		}
	}
	delete(b.latest, v.topic)
	if len(b.viewers) == 0 {
		b.end()
	}
}

// end ends the goroutine; the hub must be locked.
func (b *hub) end() {
	if b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

func (b *hub) close() {
	b.mu.Lock()
	if !b.ended {
		b.ended = true
		close(b.closed)
		b.end()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// run reads for all viewers until ctx ends.
func (b *hub) run(ctx context.Context, wake <-chan struct{}) {
	ticker := time.NewTicker(b.interval)
	defer ticker.Stop()
	for all := true; ctx.Err() == nil; {
		topics := b.topics(all)
		each(len(topics), func(i int) {
			// What could not be read is read again at the next turn; the page stays as it is.
			if fragment, err := b.render(ctx, topics[i]); err == nil {
				b.publish(ctx, topics[i], fragment)
			}
		})
		select {
		case <-ctx.Done():
		case <-ticker.C:
			all = true
		case <-wake:
			all = false
		}
	}
}

// topics returns what is viewed: all of it, or what nothing was told of yet.
func (b *hub) topics(all bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var topics []string
	for v := range b.viewers {
		if all || b.latest[v.topic] == nil {
			topics = append(topics, v.topic)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// publish tells the viewers of a topic what was read. What has only got older is told
// from time to time: the page is as of when it was told.
func (b *hub) publish(ctx context.Context, topic string, fragment []byte) {
	fresh := &reading{fragment, sha256.Sum256(still(fragment)), time.Now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.latest[topic]
	switch {
	case ctx.Err() != nil || before != nil && bytes.Equal(before.fragment, fragment):
		return
	case before != nil && before.still == fresh.still && fresh.told.Sub(before.told) < quietest:
		before.fragment = fragment // for viewers that come now
		return
	}
	told := false
	for v := range b.viewers {
		if v.topic == topic {
			notify(v.changed)
			told = true
		}
	}
	if told { // else the last viewer left meanwhile
		b.latest[topic] = fresh
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it knows
	}
}

func (b *hub) fragment(v *viewer) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.latest[v.topic]; r != nil {
		return r.fragment
	}
	return nil
}

const (
	// slowest is how long one write to a viewer may take; who is slower is dropped, and
	// may come again.
	slowest = 10 * time.Second
	// quietest is how long nothing is written to a viewer, at most; what has only got
	// older since is not written more often.
	quietest = 15 * time.Second
)

// serve tells a viewer what changes, as server-sent events, until it goes away. A viewer
// that is slow misses what was outdated meanwhile.
func (b *hub) serve(w http.ResponseWriter, r *http.Request, topic string) {
	if !flushes(w) {
		http.Error(w, "updates cannot be passed on here: the writer of the response cannot flush", http.StatusNotImplemented)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy would hold events back
	if r.Method == http.MethodHead {
		return
	}
	v, ok := b.join(topic)
	if !ok {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are kept up to date already; this one is as of when it was asked for", http.StatusServiceUnavailable)
		return
	}
	defer b.leave(v)
	out := stream{w, http.NewResponseController(w)}
	// The server's bounds are for whole answers; this one has no end. A writer that knows
	// no bounds has none.
	_ = out.control.SetReadDeadline(time.Time{})
	defer func() { _ = out.control.SetWriteDeadline(time.Time{}) }()
	if out.write([]byte("retry: 3000\n\n")) != nil {
		return
	}
	quiet := time.NewTicker(quietest)
	defer quiet.Stop()
	for {
		var err error
		select {
		case <-r.Context().Done():
			return
		case <-b.closed:
			return
		case <-v.changed:
			err = out.write(event(b.fragment(v)))
		case <-quiet.C:
			err = out.write([]byte(":\n\n"))
		}
		if err != nil {
			return
		}
	}
}

// stream writes to a viewer.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s stream) write(b []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(slowest))
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}

// event returns a fragment as one server-sent event.
func event(fragment []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(fragment) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
