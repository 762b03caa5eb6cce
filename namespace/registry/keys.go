package registry

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"strconv"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/store"
)

// layout forms the keys of the store, which the package documentation lists. Callers check
// the segments first (checkSegment).
type layout struct{ root string }

// maxSegment bounds a segment of a key, in bytes.
const maxSegment = syntax.MaxSubdomain

func newLayout(prefix string) (layout, error) {
	if err := keypath.Check("the prefix", prefix); err != nil {
		return layout{}, invalidOption("%v", err)
	}
	return layout{"/" + prefix + "/"}, nil
}

func (l layout) namespaces() string             { return l.root + namespace.Resource + "/" }
func (l layout) namespace(name string) string   { return l.root + namespace.Resource + "/" + name }
func (l layout) gates() string                  { return l.root + ".gate/" }
func (l layout) gate(name string) string        { return l.root + ".gate/" + name }
func (l layout) terminations() string           { return l.root + ".terminating/" }
func (l layout) termination(name string) string { return l.root + ".terminating/" + name }
func (l layout) holds() string                  { return l.root + ".hold/" }
func (l layout) hold(name string) string        { return l.root + ".hold/" + name }
func (l layout) types() string                  { return l.root + ".types/" }
func (l layout) format() string                 { return l.root + ".format" }

func (l layout) typeRecord(r namespace.ResourceType) string { return l.types() + r.String() }

// content returns the prefix of all objects of a type, or of those in one namespace.
func (l layout) content(resource namespace.ResourceType, ns string) string {
	if ns == "" {
		return l.root + resource.String() + "/"
	}
	return l.root + resource.String() + "/" + ns + "/"
}

// checkSegment refuses a name that cannot be a segment of a key.
func checkSegment(resource, name string) error {
	if why := keypath.Segment(name); why != "" {
		return badRequest(resource, clip(name), "invalid resource name %q: %s", clip(name), why)
	}
	return nil
}

// formatVersion returns a revision as a resourceVersion.
func formatVersion(r store.Revision) string { return strconv.FormatInt(int64(r), 10) }

// parseVersion parses a resourceVersion. Both "" and "0" are zero; callers that distinguish
// them compare the text.
func parseVersion(resource, text string) (store.Revision, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || text[0] == '+' || text[0] == '-' {
		return 0, badRequest(resource, "", "invalid resource version %q: must be a decimal number", clip(text))
	}
	return store.Revision(n), nil
}

// token is the content of a page token or of the token of an index event. It carries the
// epoch of the store, so that a token from before a restored backup is refused as gone.
type token struct {
	Version  int            `json:"v"`
	Epoch    string         `json:"e,omitempty"`
	Revision store.Revision `json:"r"`
	Listing  string         `json:"l"`           // hash of the prefix
	After    string         `json:"k,omitempty"` // the last key, without the prefix
	Left     int64          `json:"n,omitempty"` // number of objects after that key; zero if unknown
}

const (
	tokenVersion = 1
	maxToken     = 4 << 10 // bytes
)

// encodeToken returns the token of a position in the listing or watch of prefix.
func encodeToken(prefix string, position store.Position, after string) string {
	return encodePageToken(prefix, position, after, 0)
}

// encodePageToken returns the token of a page. left is the number of objects after the page,
// or zero if it is unknown.
func encodePageToken(prefix string, position store.Position, after string, left int64) string {
	data, err := json.Marshal(token{
		Version: tokenVersion, Epoch: position.Epoch, Revision: position.Revision, Listing: prefixHash(prefix), After: after, Left: left,
	})
	if err != nil { // strings and numbers always encode
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// prefixHash distinguishes listings. If the token of one were accepted by another, the other
// would silently omit objects.
func prefixHash(prefix string) string {
	hash := fnv.New64a()
	hash.Write([]byte(prefix)) // never fails
	return strconv.FormatUint(hash.Sum64(), 36)
}

// decodeToken decodes a token that encodeToken made for the same prefix.
func decodeToken(prefix, text string) (position store.Position, after string, ok bool) {
	position, after, left, ok := decodePageToken(prefix, text)
	return position, after, ok && left == 0
}

// decodePageToken decodes a token that encodePageToken made for the same prefix. A client may
// have forged left, which is only informative.
func decodePageToken(prefix, text string) (position store.Position, after string, left int64, ok bool) {
	if len(text) > maxToken {
		return store.Position{}, "", 0, false
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return store.Position{}, "", 0, false
	}
	var t token
	if json.Unmarshal(data, &t) != nil || t.Version != tokenVersion || t.Listing != prefixHash(prefix) || t.Revision < 0 ||
		!utf8.ValidString(t.After) || t.Left < 0 || t.Left > maxRemaining {
		return store.Position{}, "", 0, false
	}
	return store.Position{Epoch: t.Epoch, Revision: t.Revision}, t.After, t.Left, true
}
