package apiserver

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// statePage is how many objects of the state are read and sent at once: it bounds
// the memory that a watch takes, whatever is stored.
const statePage = 500

// sendState sends what there is as ADDED events, a page at a time, all of one
// snapshot, and returns the version of it. A client that asked for the state
// explicitly is told the end by a bookmark. That is a list, and has the slot of one:
// who waits for one has that of the watch already, but nobody the other way round.
func (st *watchStream) sendState(ctx context.Context) (string, error) {
	if e := exchangeOf(st.r.Context()); e != nil {
		slot, err := acquire(ctx, st.server.traffic.reads, e.client)
		if err != nil {
			return "", err
		}
		defer slot.Release()
	}
	if err := st.server.hold(st.r, reading); err != nil {
		return "", err
	}
	defer func() { _ = st.server.hold(st.r, 0) }() // less is never refused
	o := st.r.query.list
	o.Limit, o.Bytes, o.Continue, o.Exact = statePage, pageBytes, "", false
	read := st.readPage
	if _, raw := st.server.codec.RawEvent(st.r.format, "", nil); raw {
		read = st.readRawPage
	}
	for {
		meta, size, frame, err := read(ctx, o)
		if err != nil {
			return "", err
		}
		if err := st.sendPage(ctx, size, frame); err != nil {
			return "", err
		}
		if meta.Continue == "" {
			return meta.ResourceVersion, st.endState(meta.ResourceVersion)
		}
		o.Continue, o.ResourceVersion = meta.Continue, ""
	}
}

// readPage returns a page of the state: how many objects it has, and the frame of
// each.
func (st *watchStream) readPage(ctx context.Context, o registry.ListOptions) (namespace.ListMeta, int, func(int) ([]byte, error), error) {
	page, err := st.r.storage.list(ctx, st.r.Namespace, o)
	weight := int64(reading)
	for _, object := range page.Items {
		weight += st.r.encoding(object)
	}
	if err == nil {
		err = st.server.hold(st.r, weight)
	}
	return page.ListMeta, len(page.Items), func(i int) ([]byte, error) {
		return st.server.codec.Event(st.r.format, st.r.Kind, registry.Added.String(), page.Items[i], st.table(!st.titled))
	}, err
}

// readRawPage is readPage for documents that go out as they are stored.
func (st *watchStream) readRawPage(ctx context.Context, o registry.ListOptions) (namespace.ListMeta, int, func(int) ([]byte, error), error) {
	page, err := st.r.storage.listJSON(ctx, st.r.Namespace, o)
	if err == nil {
		err = st.server.hold(st.r, rawWeight(page.Items, page.Continue != ""))
	}
	return page.ListMeta, len(page.Items), func(i int) ([]byte, error) {
		frame, _ := st.server.codec.RawEvent(st.r.format, registry.Added.String(), page.Items[i])
		return frame, nil
	}, err
}

// sendPage sends a page of the state. Until the last one there is no version at
// which the client could resume.
func (st *watchStream) sendPage(ctx context.Context, size int, frame func(int) ([]byte, error)) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.start(); err != nil {
		return err
	}
	for i := range size {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		event, err := frame(i)
		if err != nil {
			return err
		}
		st.titled = true
		*st.events++
		if _, st.err = st.w.Write(event); st.err != nil {
			return st.err
		}
	}
	return st.write(nil)
}

// endState notes that the state was sent, and tells a client that waits for that.
func (st *watchStream) endState(version string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.version, st.told = version, version
	q := &st.r.query
	if q.sendInitialEvents == nil || !*q.sendInitialEvents || !q.bookmarks {
		return nil
	}
	return st.bookmark(map[string]string{initialEventsEnd: "true"})
}

func (c content) watch(ctx context.Context, ns string, o registry.WatchOptions, to *watchStream) error {
	return follow(to, c.Watch(ctx, ns, o), func(o registry.Object) (registry.Object, error) { return o, nil })
}

func (n namespaces) watch(ctx context.Context, _ string, o registry.WatchOptions, to *watchStream) error {
	return follow(to, n.Watch(ctx, o), func(n namespace.Namespace) (registry.Object, error) { return objectOf(n, nil) })
}
