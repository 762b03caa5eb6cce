package codec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// clause is one of the media types of an Accept header.
type clause struct {
	kind, subtype string // such as "application" and "json", or "*"
	params        map[string]string
	quality       float64
}

// maxClauses bounds how much of an Accept header is looked at.
const maxClauses = 32

// parseAccept returns the clauses of an Accept header in the order in which they
// are to be tried. What makes no sense is left out, as is what has quality zero.
func parseAccept(header string) []clause {
	var list []clause
	for text := range strings.SplitSeq(header, ",") {
		if len(list) == maxClauses {
			break
		}
		if c, ok := parseClause(text); ok {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b clause) int {
		return cmp.Or(cmp.Compare(b.quality, a.quality), cmp.Compare(a.wildcards(), b.wildcards()))
	})
	return list
}

func parseClause(text string) (clause, bool) {
	mediaType, rest, _ := strings.Cut(text, ";")
	kind, subtype, _ := strings.Cut(strings.ToLower(strings.TrimSpace(mediaType)), "/")
	if kind == "*" && subtype == "" { // as some clients write it
		subtype = "*"
	}
	if kind == "" || subtype == "" || kind == "*" && subtype != "*" {
		return clause{}, false
	}
	c := clause{kind: kind, subtype: subtype, quality: 1}
	for param := range strings.SplitSeq(rest, ";") {
		name, value, ok := strings.Cut(param, "=")
		if !ok {
			continue
		}
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.Trim(strings.TrimSpace(value), `"`)
		if name == "q" {
			q, err := strconv.ParseFloat(value, 64)
			if err != nil || !(q >= 0 && q <= 1) {
				return clause{}, false
			}
			c.quality = q
			continue
		}
		if c.params == nil {
			c.params = map[string]string{}
		}
		c.params[name] = value
	}
	return c, c.quality > 0
}

func (c clause) wildcards() int {
	switch {
	case c.kind == "*":
		return 2
	case c.subtype == "*":
		return 1
	}
	return 0
}

func (c clause) matches(mediaType string) bool {
	kind, subtype, _ := strings.Cut(mediaType, "/")
	return (c.kind == "*" || c.kind == kind) && (c.subtype == "*" || c.subtype == subtype)
}
