package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// get answers GET of one object with its current state. A resource version is a minimum.
func (s *Server) get(w http.ResponseWriter, r *request) error {
	if err := s.reached(r); err != nil {
		return err
	}
	if err := s.setMemory(r, reading); err != nil {
		return err
	}
	ctx := r.Context()
	if r.format.Raw() {
		document, err := r.storage.GetJSON(ctx, r.Namespace, r.Name)
		if err != nil {
			return err
		}
		if err := s.setMemory(r, rawCopies*int64(len(document))); err != nil {
			return err
		}
		s.send(w, r, http.StatusOK, s.codec.RawObject(document))
		return nil
	}
	o, err := r.storage.Get(ctx, r.Namespace, r.Name)
	if err != nil {
		return err
	}
	if err := s.setMemory(r, r.encoding(o)); err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, o)
}

// reached waits until the store has reached the resource version of the query.
func (s *Server) reached(r *request) error {
	version := r.query.list.ResourceVersion
	if version == "" || version == "0" {
		return nil
	}
	return s.await(r, func(ctx context.Context) error {
		_, err := r.storage.ListJSON(ctx, r.Namespace, registry.ListOptions{Limit: 1, ResourceVersion: version})
		return err
	})
}

// await repeats a read until the store has reached its resource version, for at most
// Limits.Wait.
func (s *Server) await(r *request, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Limits.Wait)
	defer cancel()
	pause := backoff.Exponential{Min: 5 * time.Millisecond, Max: 200 * time.Millisecond}
	for attempt := 0; ; attempt++ {
		err := read(r.Context())
		if !errors.Is(err, store.ErrFuture) {
			return err
		}
		if backoff.Sleep(ctx, pause.Bound(attempt)) != nil {
			if r.Context().Err() != nil {
				return context.Cause(r.Context())
			}
			return s.ahead(r, err)
		}
	}
}

// ahead returns the error for a resource version that the store has not reached. It names the
// version of the request, which may differ from the version that the read asked for.
func (s *Server) ahead(r *request, cause error) error {
	now, err := r.storage.ListJSON(r.Context(), r.Namespace, registry.ListOptions{Limit: 1})
	if err != nil {
		return cause
	}
	wanted, err := strconv.ParseInt(r.query.list.ResourceVersion, 10, 64)
	if err != nil {
		return cause // the version belongs to a continue token
	}
	return &apierrors.StatusError{ErrStatus: tooLarge(fmt.Sprintf("Too large resource version: %d, current: %s", wanted, now.ResourceVersion))}
}

// list answers a list. Only a client that sets a limit gets pages, of at most Limits.Page
// objects and pageBytes: another client would take the first page for the whole list.
func (s *Server) list(w http.ResponseWriter, r *request) error {
	o := r.query.list
	if o.Limit > 0 && o.Continue == "" && r.query.resourceVersionMatch == "" && o.ResourceVersion != "" && o.ResourceVersion != "0" {
		o.Exact = true // the meaning that such a list has in Kubernetes
	}
	o.Limit, o.Bytes = min(o.Limit, s.options.Limits.Page), pageBytes
	if err := s.setMemory(r, reading); err != nil {
		return err
	}
	if r.format.Raw() {
		return s.listRaw(w, r, o)
	}
	list, err := s.decoded(r, o)
	if err != nil {
		return err
	}
	body, err := s.codec.List(r.format, r.Kind, list, r.table())
	if err != nil {
		return err
	}
	s.send(w, r, http.StatusOK, body)
	return nil
}

// decoded reads a list that has to be converted: one page if the client set a limit, otherwise
// the whole list if the memory suffices.
func (s *Server) decoded(r *request, o registry.ListOptions) (registry.ObjectList, error) {
	var list registry.ObjectList
	var weight int64
	for {
		var page registry.ObjectList
		err := s.await(r, func(ctx context.Context) (err error) {
			page, err = r.storage.List(ctx, r.Namespace, o)
			return err
		})
		if err != nil {
			return list, err
		}
		for _, object := range page.Items {
			weight += r.encoding(object)
		}
		page.Items = append(list.Items, page.Items...)
		list = page
		if o.Limit > 0 || page.Continue == "" {
			return list, s.setMemory(r, weight)
		}
		if err := s.setMemory(r, weight+reading); err != nil {
			return list, err
		}
		o = after(o, page.Continue)
	}
}

// after returns the options for the page at token.
func after(o registry.ListOptions, token string) registry.ListOptions {
	o.Continue, o.ResourceVersion, o.Exact = token, "", false
	return o
}

// listRaw answers from the stored documents without decoding them. A list without a limit
// is read from one snapshot and sent in parts, so its memory depends neither on its size
// nor on the speed of the client.
func (s *Server) listRaw(w http.ResponseWriter, r *request, o registry.ListOptions) error {
	whole := o.Limit == 0
	var page registry.JSONList
	err := s.await(r, func(ctx context.Context) (err error) {
		page, err = r.storage.ListJSON(ctx, r.Namespace, o)
		return err
	})
	if err != nil {
		return err
	}
	token := page.Continue
	if whole {
		page.Continue = ""
	}
	if err := s.setMemory(r, rawWeight(page.Items, page.Continue != token)); err != nil {
		return err
	}
	items := s.items(w, r, page)
	if !whole || token == "" {
		head(w, http.StatusOK, r.format.ContentType(), items.size(page.Items))
		if items.write(page.Items) {
			items.end()
		}
		return nil
	}
	headOfUnknownSize(w, http.StatusOK, r.format.ContentType())
	for items.write(page.Items) {
		if token == "" {
			items.end()
			return nil
		}
		if page, err = s.nextPart(r, after(o, token)); err != nil {
			s.cutOff(r, err)
		}
		token = page.Continue
	}
	return nil
}

// nextPart reads the next part of a list, with a deadline of its own.
func (s *Server) nextPart(r *request, o registry.ListOptions) (registry.JSONList, error) {
	ctx, cancel := context.WithTimeout(r.parent, s.options.Limits.Timeout)
	defer cancel()
	page, err := r.storage.ListJSON(ctx, r.Namespace, o)
	if err == nil {
		err = s.setMemory(r, rawWeight(page.Items, page.Continue != ""))
	}
	return page, err
}

// cutOff aborts an answer that cannot be completed, so that no client takes it for a
// complete one.
func (s *Server) cutOff(r *request, err error) {
	if r.parent.Err() == nil {
		s.log.ErrorContext(r.parent, "a list was cut off", "path", excerpt(r.URL.Path), "user", userOf(r.Request), "error", err)
	}
	exchangeOf(r.Context()).reason = excerpt(s.status(err).Message)
	panic(http.ErrAbortHandler)
}

// items writes the body of a list in pieces, so that a large list is never in one buffer.
type items struct {
	server *Server
	w      http.ResponseWriter
	buffer *[piece]byte
	buf    []byte // the unwritten part of buffer
	tail   []byte // the end of the body
	any    bool
}

// items returns a writer for the documents of a list.
func (s *Server) items(w http.ResponseWriter, r *request, list registry.JSONList) *items {
	buffer, ok := s.pieces.Get().(*[piece]byte)
	if !ok {
		buffer = new([piece]byte)
	}
	head, tail := s.codec.RawList(r.Kind, list.ListMeta)
	return &items{server: s, w: w, buffer: buffer, buf: append(buffer[:0], head...), tail: tail}
}

// size returns the size of the body with exactly these items.
func (i *items) size(list []json.RawMessage) int {
	size := len(i.buf) + len(i.tail) + max(0, len(list)-1)
	for _, item := range list {
		size += len(item)
	}
	return size
}

// write appends items to the body. It reports whether the client still reads.
func (i *items) write(list []json.RawMessage) bool {
	for _, item := range list {
		if len(i.buf)+len(item)+1 > cap(i.buf) {
			if _, err := i.w.Write(i.buf); err != nil {
				return false
			}
			i.buf = i.buf[:0]
		}
		if i.any {
			i.buf = append(i.buf, ',')
		}
		i.any = true
		i.buf = append(i.buf, item...) // an item larger than a piece gets a buffer of its own
	}
	return true
}

// end writes the end of the body.
func (i *items) end() {
	if _, err := i.w.Write(i.buf); err == nil {
		i.w.Write(i.tail)
		i.server.pieces.Put(i.buffer) // only after a successful write: HTTP/2 may still send from the buffer of a failed one
	}
}
