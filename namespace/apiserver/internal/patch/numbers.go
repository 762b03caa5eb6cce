package patch

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// decimal returns the one form of all spellings of a number, without loss.
func decimal(n json.Number) string {
	text, sign := strings.CutPrefix(string(n), "-")
	mantissa, power := text, int64(0)
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if power, err = strconv.ParseInt(text[i+1:], 10, 32); err != nil {
			return string(n)
		}
		mantissa = text[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	power -= int64(len(fraction))
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "0"
	}
	power += int64(len(digits) - len(short))
	if sign {
		short = "-" + short
	}
	return short + "e" + strconv.FormatInt(power, 10)
}

// rounded returns the decimal of what the libraries of Kubernetes make of a number:
// an int64, or else a float64.
func rounded(n json.Number) string {
	if _, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return decimal(n)
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return decimal(n)
	}
	return decimal(json.Number(strconv.FormatFloat(f, 'g', -1, 64)))
}

// spellings are the numbers of documents by what they are rounded to. An empty one
// says that there are several.
type spellings map[string]json.Number

// collect adds the numbers of a tree, and reports whether one of them loses by being
// rounded.
func (s spellings) collect(tree any) (lossy bool) {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			lossy = s.collect(item) || lossy
		}
	case map[string]any:
		for _, value := range tree {
			lossy = s.collect(value) || lossy
		}
	case json.Number:
		short, exact := rounded(tree), decimal(tree)
		if other, ok := s[short]; !ok {
			s[short] = tree
		} else if other != "" && decimal(other) != exact {
			s[short] = ""
		}
		return short != exact
	}
	return lossy
}

// missing stands for a part that a document does not have.
type missing struct{}

// exact puts the numbers of the live object and of what is applied to it back into
// what became of them: the libraries of Kubernetes round those that have no int64 and
// no short decimal. A number that may be one or another is refused.
func exact(k kinds.Kind, live registry.Object, applied, outcome []byte) ([]byte, error) {
	var trees [3]any
	stored, err := encode(live)
	if err != nil {
		return nil, err
	}
	for i, data := range [][]byte{outcome, stored, applied} {
		if trees[i], err = parse(data); err != nil {
			return nil, err
		}
	}
	s := spellings{}
	inLive, inPatch := s.collect(trees[1]), s.collect(trees[2])
	if !inLive && !inPatch {
		return outcome, nil
	}
	tree, at := s.restore(trees[0], trees[1], trees[2], "")
	if at != "" {
		return nil, namespace.Invalid(qualified(k), k.Name().String(), live.Name, []namespace.Violation{{
			Type: namespace.FieldInvalid, Field: clip(at),
			Message: "Invalid value: server-side apply rounds this number to one that others are rounded to as well: change it by another patch",
		}})
	}
	return format(tree)
}

// restore returns the outcome with the numbers as they were written. If one of them is
// in doubt it returns the path of that.
func (s spellings) restore(outcome, live, applied any, at string) (any, string) {
	switch outcome := outcome.(type) {
	case map[string]any:
		before, _ := live.(map[string]any)
		wanted, _ := applied.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(outcome)) {
			value, doubt := s.restore(outcome[name], part(before, name), part(wanted, name), within(at, "."+name))
			if doubt != "" {
				return nil, doubt
			}
			outcome[name] = value
		}
	case []any:
		if applied == (any)(missing{}) && alike(outcome, live) {
			return live, ""
		}
		for i, item := range outcome { // of both, perhaps, in another order
			value, doubt := s.restore(item, missing{}, missing{}, within(at, "["+strconv.Itoa(i)+"]"))
			if doubt != "" {
				return nil, doubt
			}
			outcome[i] = value
		}
	case json.Number:
		before, wasThere := live.(json.Number)
		wanted, isWanted := applied.(json.Number)
		wasThere = wasThere && rounded(before) == rounded(outcome)
		isWanted = isWanted && rounded(wanted) == rounded(outcome)
		found, ok := s[rounded(outcome)]
		switch {
		case wasThere && isWanted && decimal(before) != decimal(wanted): // nobody was asked whether it may change
			return nil, at
		case wasThere:
			return before, ""
		case isWanted:
			return wanted, ""
		case ok && found == "":
			return nil, at
		case ok:
			return found, ""
		}
	}
	return outcome, ""
}

func part(object map[string]any, name string) any {
	if value, ok := object[name]; ok {
		return value
	}
	return missing{}
}

// alike reports whether two trees are the same but for rounded numbers.
func alike(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, alike)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, alike)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && rounded(a) == rounded(b)
	}
	switch b.(type) {
	case []any, map[string]any, json.Number: // never compare these with ==
		return false
	}
	return a == b
}
