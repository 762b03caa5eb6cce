package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Annotation marks the objects of a source. Its value is a JSON object with the name of the source,
// the file, the object, and a hash of the document. The object's name distinguishes the object from
// copies that clients make of it.
const Annotation = "nslifecycle.github.io/source"

// mark is the value of [Annotation].
type mark struct {
	Source string `json:"source"`
	File   string `json:"file,omitempty"`
	Object string `json:"object"`
	Hash   string `json:"hash"`
}

// owned returns the mark of an object and whether the source owns the object.
func owned(source, key string, o registry.Object) (mark, bool) {
	var m mark
	text, ok := o.Annotations[Annotation]
	if !ok || json.Unmarshal([]byte(text), &m) != nil {
		return mark{}, false
	}
	return m, m.Source == source && m.Object == key
}

// text returns the value of the annotation.
func (m mark) text() (string, error) {
	raw, err := json.Marshal(m)
	return string(raw), err
}

func hashOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:16])
}
