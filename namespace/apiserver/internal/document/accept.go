package document

import (
	"mime"
	"slices"
	"strconv"
	"strings"
)

// Media is one clause of an Accept header.
type Media struct {
	Type   string // such as "application/json" or "*/*"
	Params map[string]string
	Q      float64
}

// maxClauses is how many clauses of an Accept header are looked at.
const maxClauses = 100

// Parse returns the clauses of Accept headers, the most wanted first and otherwise
// in their order. What cannot be understood, or has the weight zero, is left out.
// No headers, or only empty ones, accept everything.
func Parse(headers ...string) []Media {
	var list []Media
	empty := true
	for _, header := range headers {
		for part := range strings.SplitSeq(header, ",") {
			if strings.TrimSpace(part) == "" {
				continue
			}
			empty = false
			if m, ok := parse(part); ok && len(list) < maxClauses {
				list = append(list, m)
			}
		}
	}
	if empty {
		return []Media{{Type: "*/*", Q: 1}}
	}
	slices.SortStableFunc(list, func(a, b Media) int {
		switch {
		case a.Q > b.Q:
			return -1
		case a.Q < b.Q:
			return 1
		}
		return 0
	})
	return list
}

func parse(part string) (Media, bool) {
	name, params, err := mime.ParseMediaType(part)
	if err != nil {
		name, params = bare(part) // "@" in a media type, as old clients of OpenAPI send it
	}
	m := Media{Type: name, Params: params, Q: 1}
	if q, ok := params["q"]; ok {
		if m.Q, err = strconv.ParseFloat(q, 64); err != nil {
			return m, false
		}
		delete(params, "q")
	}
	return m, strings.Contains(name, "/") && m.Q > 0
}

// bare splits a clause without a look at which characters are allowed.
func bare(part string) (string, map[string]string) {
	name, rest, _ := strings.Cut(part, ";")
	params := map[string]string{}
	for pair := range strings.SplitSeq(rest, ";") {
		if key, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok {
			params[strings.ToLower(key)] = value
		}
	}
	return strings.ToLower(strings.TrimSpace(name)), params
}

// choose returns the form that the clauses want most; nil if they want none.
func choose(headers []string, forms []*Form) *Form {
	for _, wanted := range Parse(headers...) {
		for _, form := range forms {
			if slices.ContainsFunc(form.names, wanted.covers) {
				return form
			}
		}
	}
	return nil
}

// covers reports whether a clause asks for what a form offers: every parameter
// that says what kind of document it is must agree.
func (wanted Media) covers(offered Media) bool {
	if wanted.Type == "*/*" {
		return len(offered.Params) == 0
	}
	kind, _, _ := strings.Cut(offered.Type, "/")
	if wanted.Type != offered.Type && wanted.Type != kind+"/*" {
		return false
	}
	for _, key := range []string{"g", "v", "as"} {
		if wanted.Params[key] != offered.Params[key] {
			return false
		}
	}
	return true
}
