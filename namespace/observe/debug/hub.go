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

const (
	writeTimeout  = 10 * time.Second // of one update; a slower viewer is disconnected and may return
	quietInterval = 15 * time.Second // between messages to a viewer if only ages have changed
)

// hub updates open pages. One goroutine reads for all of them while there are any.
type hub struct {
	render   func(ctx context.Context, topic string) ([]byte, error)
	interval time.Duration
	limit    int // viewers

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	latest  map[string]*update // by topic
	stop    context.CancelFunc // of the goroutine; nil: none runs
	wake    chan struct{}      // announces a new topic to the goroutine
	running sync.WaitGroup
	closed  chan struct{}
	ended   bool
}

// update is the last reading of a topic.
type update struct {
	fragment []byte
	content  [sha256.Size]byte // hash without ages
	sent     time.Time
}

// viewer is one open page.
type viewer struct {
	topic   string
	changed chan struct{}
}

func newHub(render func(context.Context, string) ([]byte, error), interval time.Duration, limit int) *hub {
	return &hub{
		render: render, interval: interval, limit: limit,
		viewers: map[*viewer]struct{}{}, latest: map[string]*update{}, closed: make(chan struct{}),
	}
}

// join adds a viewer, unless there are too many.
func (b *hub) join(topic string) (*viewer, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || len(b.viewers) >= b.limit {
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

// leave removes a viewer. The goroutine ends with the last one.
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

// end ends the goroutine. The caller holds the lock.
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

// run renders all topics at each interval, and a new one at once, until ctx ends.
func (b *hub) run(ctx context.Context, wake <-chan struct{}) {
	ticker := time.NewTicker(b.interval)
	defer ticker.Stop()
	for all := true; ctx.Err() == nil; {
		topics := b.topics(all)
		each(len(topics), func(i int) {
			if fragment, err := b.render(ctx, topics[i]); err == nil { // otherwise the page stays as it is
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

// topics returns all topics with viewers, or only those that were never rendered.
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

// publish sends a reading to the viewers of its topic. If only ages have changed, it waits
// for the quiet interval.
func (b *hub) publish(ctx context.Context, topic string, fragment []byte) {
	fresh := &update{fragment, sha256.Sum256(withoutAges(fragment)), time.Now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.latest[topic]
	switch {
	case ctx.Err() != nil || before != nil && bytes.Equal(before.fragment, fragment):
		return
	case before != nil && before.content == fresh.content && fresh.sent.Sub(before.sent) < quietInterval:
		before.fragment = fragment // for new viewers
		return
	}
	for v := range b.viewers {
		if v.topic == topic {
			notify(v.changed)
			b.latest[topic] = fresh
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // already notified
	}
}

func (b *hub) fragment(v *viewer) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u := b.latest[v.topic]; u != nil {
		return u.fragment
	}
	return nil
}

// serve sends a topic's updates as server-sent events until the client disconnects. A slow
// client skips the updates that it missed.
func (b *hub) serve(w http.ResponseWriter, r *http.Request, topic string) {
	if !canFlush(w) {
		http.Error(w, "live updates are not available: the response writer cannot flush", http.StatusNotImplemented)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not buffer events
	if r.Method == http.MethodHead {
		return
	}
	v, ok := b.join(topic)
	if !ok {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many open pages are being updated; this one shows the state at the time of its request", http.StatusServiceUnavailable)
		return
	}
	defer b.leave(v)
	out := stream{w, http.NewResponseController(w)}
	// The deadlines of the server are meant for whole responses, and this one has no end.
	_ = out.control.SetReadDeadline(time.Time{}) // writers without deadlines have none to remove
	defer func() { _ = out.control.SetWriteDeadline(time.Time{}) }()
	if out.write([]byte("retry: 3000\n\n")) != nil {
		return
	}
	quiet := time.NewTicker(quietInterval)
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

// canFlush reports whether w supports flushing.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return false
		}
	}
}

// stream writes to a viewer.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s stream) write(b []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
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
