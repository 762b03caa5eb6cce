package apiserver

import (
	"encoding/json"
	"net/http"
)

// items writes the body of a list in pieces, so that a large list is never in one buffer.
type items struct {
	server *Server
	w      http.ResponseWriter
	buffer *[piece]byte
	buf    []byte // the unwritten part of buffer
	rest   []byte // the end of the body
	any    bool
}

// items returns a writer that inserts items into empty, the body of an empty list.
func (s *Server) items(w http.ResponseWriter, empty []byte) *items {
	const end = len("]}\n")
	buffer, ok := s.pieces.Get().(*[piece]byte)
	if !ok {
		buffer = new([piece]byte)
	}
	at := len(empty) - end
	return &items{server: s, w: w, buffer: buffer, buf: append(buffer[:0], empty[:at]...), rest: empty[at:]}
}

// size returns the size of the body with exactly these items.
func (i *items) size(list []json.RawMessage) int {
	size := len(i.buf) + len(i.rest) + max(0, len(list)-1)
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
		i.w.Write(i.rest)
		i.server.pieces.Put(i.buffer) // only after a successful write: HTTP/2 may still send from the buffer of a failed one
	}
}
