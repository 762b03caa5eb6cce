package registry

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"strconv"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/store"
)

// token is a position that leaves the process: in a continue token with the key
// to go on after, elsewhere alone. It carries the epoch, so that a token of a
// history that was replaced answers gone.
type token struct {
	Version  int            `json:"v"`
	Epoch    string         `json:"e,omitempty"`
	Revision store.Revision `json:"r"`
	Listing  string         `json:"l"`           // a mark of the prefix of the listing or watch
	After    string         `json:"k,omitempty"` // the key, without that prefix
	Left     int64          `json:"n,omitempty"` // how many objects follow that key; zero: that is not known
}

const (
	tokenVersion = 1
	maxToken     = 4 << 10 // bytes
)

// encodeToken returns the token for a position in the listing or watch of prefix.
func encodeToken(prefix string, position store.Position, after string) string {
	return encodePageToken(prefix, position, after, 0)
}

// encodePageToken returns the token to go on with after a page that so many objects
// follow; zero: that is not known.
func encodePageToken(prefix string, position store.Position, after string, left int64) string {
	data, err := json.Marshal(token{
		Version: tokenVersion, Epoch: position.Epoch, Revision: position.Revision, Listing: listingMark(prefix), After: after, Left: left,
	})
	if err != nil { // strings and numbers always encode
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// listingMark tells listings apart, so that the token of one is not taken for that
// of another, which would leave out objects in silence.
func listingMark(prefix string) string {
	hash := fnv.New64a()
	hash.Write([]byte(prefix)) // never fails
	return strconv.FormatUint(hash.Sum64(), 36)
}

// decodeToken reads what encodeToken wrote for the same prefix. It reports false
// for anything else.
func decodeToken(prefix, text string) (store.Position, string, bool) {
	position, after, left, ok := decodePageToken(prefix, text)
	return position, after, ok && left == 0
}

// decodePageToken reads what encodePageToken wrote for the same prefix. How many are
// left is for information only: a client can have made it up.
func decodePageToken(prefix, text string) (position store.Position, after string, left int64, ok bool) {
	if len(text) > maxToken {
		return store.Position{}, "", 0, false
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return store.Position{}, "", 0, false
	}
	var t token
	if json.Unmarshal(data, &t) != nil || t.Version != tokenVersion || t.Listing != listingMark(prefix) || t.Revision < 0 ||
		!utf8.ValidString(t.After) || t.Left < 0 || t.Left > mostCounted {
		return store.Position{}, "", 0, false
	}
	return store.Position{Epoch: t.Epoch, Revision: t.Revision}, t.After, t.Left, true
}

// formatVersion returns a revision as a resourceVersion.
func formatVersion(r store.Revision) string { return strconv.FormatInt(int64(r), 10) }

// parseVersion reads a resourceVersion. Empty is zero, as "0" is: callers to whom
// that makes a difference look at the text.
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
