package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// list answers a list. Only a client that sets a limit gets pages, of at most Limits.Page
// objects and pageBytes: another client would take the first page for the whole list.
func (s *Server) list(w http.ResponseWriter, r *request) error {
	o := r.query.list
	if o.Limit > 0 && o.Continue == "" && r.query.resourceVersionMatch == "" && o.ResourceVersion != "" && o.ResourceVersion != "0" {
		o.Exact = true // the meaning that such a list has in Kubernetes
	}
	o.Limit, o.Bytes = min(o.Limit, s.options.Limits.Page), pageBytes
	if err := s.hold(r, reading); err != nil {
		return err
	}
	if r.format == (codec.Format{}) {
		return s.listRaw(w, r, o)
	}
	list, err := s.rendered(r, o)
	if err != nil {
		return err
	}
	body, err := s.codec.List(r.format, r.Kind, list, r.table())
	if err != nil {
		return err
	}
	return s.send(w, r, http.StatusOK, body)
}

// rendered reads a list that has to be decoded: one page if the client set a limit, else
// the whole list if the memory suffices.
func (s *Server) rendered(r *request, o registry.ListOptions) (registry.ObjectList, error) {
	var list registry.ObjectList
	var weight int64
	for {
		var page registry.ObjectList
		err := s.await(r, func(ctx context.Context) (err error) {
			page, err = r.storage.list(ctx, r.Namespace, o)
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
			return list, s.hold(r, weight)
		}
		if err := s.hold(r, weight+reading); err != nil {
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
		page, err = r.storage.listJSON(ctx, r.Namespace, o)
		return err
	})
	if err != nil {
		return err
	}
	token := page.Continue
	if whole {
		page.Continue = ""
	}
	if err := s.hold(r, rawWeight(page.Items, page.Continue != token)); err != nil {
		return err
	}
	empty, ok := s.codec.RawList(r.format, r.Kind, page.ListMeta, nil)
	if !ok {
		return errors.New("the codec does not write plain JSON as it is stored")
	}
	items := s.items(w, empty)
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
	page, err := r.storage.listJSON(ctx, r.Namespace, o)
	if err == nil {
		err = s.hold(r, rawWeight(page.Items, page.Continue != ""))
	}
	return page, err
}

// cutOff aborts an answer that cannot be completed, so that no client takes it for a
// complete one.
func (s *Server) cutOff(r *request, err error) {
	if r.parent.Err() == nil {
		s.log.ErrorContext(r.parent, "a list was cut off", "path", excerpt.Of(r.URL.Path), "user", userOf(r.Request), "error", err)
	}
	exchangeOf(r.Context()).reason = excerpt.Of(s.status(err).Message)
	panic(http.ErrAbortHandler)
}

// rawWeight returns the weight of sending items and, if more, of reading the next part.
func rawWeight(items []json.RawMessage, more bool) int64 {
	weight := int64(piece)
	for _, item := range items {
		weight += rawCopies * int64(len(item))
	}
	if more {
		weight = max(weight, reading)
	}
	return weight
}
