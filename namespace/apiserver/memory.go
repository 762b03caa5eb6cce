package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/flow"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/weigh"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Limits.Memory has two parts: a quarter for incoming bodies, the rest for decoding and
// answering. To avoid deadlock, a request may hold memory of the first part while it waits
// for the second, never the reverse.
const arrivingPart = 4

// pageBytes bounds one read of objects for a list or for the initial state of a watch.
const pageBytes = 1 << 20

// rawCopies is the number of copies of a stored document in memory while it is sent undecoded.
const rawCopies = 3

// reading is the memory that a request reserves before it reads from the store: enough for
// a page, or for most objects with their answers.
const reading = rawCopies*pageBytes + piece

// addMemory adds weight bytes to the memory of a request, until the request ends. The first
// reservation may wait in the queue.
func (s *Server) addMemory(r *request, weight int64) error {
	return s.setMemory(r, exchangeOf(r.Context()).weight+weight)
}

// setMemory sets the memory of a request to weight bytes. Less is never refused.
func (s *Server) setMemory(r *request, weight int64) error {
	e := exchangeOf(r.Context())
	e.memory.Shrink(weight)
	if err := e.memory.Grow(r.Context(), weight); err != nil {
		return overweight(err, weight)
	}
	e.weight = weight
	return nil
}

// amend reserves memory to change a stored object, in addition to the memory of the body.
func (s *Server) amend(r *request, live registry.Object) error {
	return s.setMemory(r, max(r.received+r.decoding(live), exchangeOf(r.Context()).weight))
}

// overweight returns the Status for a refused reservation.
func overweight(err error, weight int64) error {
	if errors.Is(err, flow.ErrTooHeavy) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("it would take about %d MiB of memory; send fewer values, or ask for fewer objects at once with the parameter limit", weight>>20))
	}
	if errors.Is(err, flow.ErrTooMany) {
		return tooMany()
	}
	return err
}

// arrive reads a body of at most Limits.Body and grows lease to its size.
func (s *Server) arrive(w http.ResponseWriter, r *request, lease *flow.Lease) ([]byte, error) {
	ctx := r.Context()
	from := http.MaxBytesReader(w, r.Body, s.options.Limits.Body)
	if size := r.ContentLength; size >= 0 {
		if err := lease.Grow(ctx, size); err != nil {
			return nil, overweight(err, size)
		}
		body := make([]byte, size)
		_, err := io.ReadFull(from, body)
		return body, bodyFault(err)
	}
	var body bytes.Buffer
	for {
		const step, copies = 64 << 10, 3 // a growing buffer is copied
		weight := int64(copies * (body.Len() + step))
		if err := lease.Grow(ctx, weight); err != nil {
			return nil, overweight(err, weight)
		}
		if n, err := io.CopyN(&body, from, step); n < step {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return body.Bytes(), bodyFault(err)
		}
	}
}

// receive reads a body and reserves memory for decoding it. It converts YAML to JSON and
// returns the matching content type. A body that cannot be converted is returned unchanged,
// because the decoder fails on it with a better error.
func (s *Server) receive(w http.ResponseWriter, r *request) (body []byte, contentType string, err error) {
	contentType = r.Header.Get("Content-Type")
	lease := s.pools.arriving.Lease(exchangeOf(r.Context()).client)
	defer lease.Release()
	if body, err = s.arrive(w, r, &lease); err != nil || len(body) == 0 {
		return nil, contentType, err
	}
	mediaType, _, _ := mime.ParseMediaType(contentType) // decoders refuse unknown types
	switch mediaType {
	case "application/vnd.kubernetes.protobuf":
		return body, contentType, s.addMemory(r, weigh.Protobuf(body)+r.echo(body))
	case "application/yaml", string(types.ApplyYAMLPatchType):
		if err := s.addMemory(r, weigh.YAML(body)); err != nil {
			return nil, contentType, err
		}
		if json.Valid(body) {
			break
		}
		document, err := codec.Document(body)
		if err != nil {
			return body, contentType, nil
		}
		if body = document; mediaType == "application/yaml" {
			contentType = "application/json"
		} else if err := s.addMemory(r, weigh.YAML(body)); err != nil { // patches are read as YAML again
			return nil, contentType, err
		}
	}
	return body, contentType, s.addMemory(r, weigh.JSON(body, r.Kind.BuiltIn())+r.echo(body))
}

// echo returns the weight of answering with the object in body. It is reserved before the
// write, so that a completed write is never refused.
func (r *request) echo(body []byte) int64 {
	if r.format.YAML() {
		return 2 * weigh.YAML(body) // decoding builds a second tree of nodes
	}
	return 0 // the weight of decoding covers the other formats
}

// decoding returns the weight of patching o and answering with the result.
func (r *request) decoding(o registry.Object) int64 {
	return weightOf(o, func(value []byte) int64 { return 2*weigh.JSON(value, r.Kind.BuiltIn()) + r.echo(value) })
}

// encoding returns the weight of o in the format of the answer.
func (r *request) encoding(o registry.Object) int64 {
	return weightOf(o, func(value []byte) int64 {
		switch {
		case r.format.Raw():
			return rawCopies * int64(len(value))
		case r.format.YAML():
			return 2*weigh.YAML(value) + weigh.JSON(value, false)
		}
		return weigh.JSON(value, r.Kind.BuiltIn())
	})
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

func weightOf(o registry.Object, value func([]byte) int64) int64 {
	weight := int64(4 << 10)
	for name, field := range o.Fields {
		weight += int64(len(name)) + value(field)
	}
	for name, text := range o.Annotations {
		weight += 8 * int64(len(name)+len(text))
	}
	for _, m := range o.ManagedFields {
		weight += value(m.FieldsV1)
	}
	return weight
}
