package apiserver

import (
	"encoding/json"
	"net/http"
)

// sendItems answers with the body of an empty list, with the items put into it.
// They are written piece by piece: the whole of a large list is never in one buffer.
func (s *Server) sendItems(w http.ResponseWriter, r *request, empty []byte, items []json.RawMessage) {
	const end = len("]}\n")
	size := len(empty) + max(0, len(items)-1)
	for _, item := range items {
		size += len(item)
	}
	head(w, http.StatusOK, r.format.ContentType(), size)
	buffer, ok := s.pieces.Get().(*[piece]byte)
	if !ok { // none is free
		buffer = new([piece]byte)
	}
	buf := append(buffer[:0], empty[:len(empty)-end]...)
	for i, item := range items {
		if len(buf)+len(item)+1 > cap(buf) {
			if _, err := w.Write(buf); err != nil {
				return // the client is gone
			}
			buf = buf[:0]
		}
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, item...) // one that is larger than all pieces has its own
	}
	if _, err := w.Write(buf); err == nil {
		w.Write(empty[len(empty)-end:])
		s.pieces.Put(buffer) // not after a write that failed: HTTP/2 may still be sending from it
	}
}
