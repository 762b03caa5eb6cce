package limitrange_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/limitrange"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// quantities returns a JSON object of n quantities whose names begin with prefix.
func quantities(prefix string, n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`"%s/%d":"1"`, prefix, i))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func empty(n int) string {
	return `{"parts":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}`
}

// An item of a LimitRange may name 100 resources in all fields together.
func TestNamesAreBounded(t *testing.T) {
	e := newEnv(t)
	for _, field := range []string{"min", "max", "default", "defaultRequest", "maxLimitRequestRatio"} {
		_, err := e.create(limitrange.Resource, "l", `{"limits":[{"type":"Container"},{"type":"example.com/x","`+field+`":`+quantities("a.b", 101)+`}]}`)
		require.ErrorIs(t, err, namespace.ErrInvalid)
		require.EqualError(t, err, `LimitRange "l" is invalid: spec.limits[1]: Forbidden: names 101 resources, at most 100 are allowed`)
	}
	_, err := e.create(limitrange.Resource, "l", `{"limits":[{"type":"Container","min":`+quantities("a.b", 60)+`,"max":`+quantities("c.d", 41)+`}]}`)
	require.ErrorIs(t, err, namespace.ErrInvalid, "together")
	e.limit("l", `[{"type":"Container","min":`+quantities("a.b", 100)+`,"max":`+quantities("a.b", 100)+`}]`)
}

// The bound of items times quantities holds for LimitRanges that bypassed the plug-in too.
func TestPairsAreBounded(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	past := openOver(t, s)
	_, err = past.Create(past.ctx, namespace.Namespace{Meta: namespace.Meta{Name: space}})
	require.NoError(t, err)
	e := openOver(t, s, rules...)
	for _, field := range []string{"default", "defaultRequest", "min", "max", "maxLimitRequestRatio"} {
		past.limit("l", `[{"type":"Container","`+field+`":`+quantities("a.b", 400)+`}]`)
		for _, operation := range []string{"create", "update"} {
			if operation == "update" {
				_, err = past.create(widgets, "w", `{}`)
				require.NoError(t, err)
				_, err = e.content(widgets).Update(e.ctx, space, object("w", empty(400)))
			} else {
				_, err = e.create(widgets, "w", empty(400))
			}
			require.ErrorIs(t, err, namespace.ErrForbidden, "%s %s", field, operation)
			require.ErrorContains(t, err, `widgets.example.com "w" is forbidden: 400 items times `)
			require.ErrorContains(t, err, " quantities in LimitRanges exceed 10000; use fewer items or limit fewer resources")
		}
		for resource, name := range map[namespace.ResourceType]string{limitrange.Resource: "l", widgets: "w"} {
			_, err = e.content(resource).Delete(e.ctx, space, name, namespace.Preconditions{})
			require.NoError(t, err)
		}
	}
	for i := range 3 { // each alone is within the bound
		e.limit(fmt.Sprint("l", i), `[{"type":"Container","default":`+quantities(fmt.Sprint("a", i), 50)+`}]`)
	}
	_, err = e.create(widgets, "w", empty(40))
	require.ErrorIs(t, err, namespace.ErrForbidden)
	_, err = e.create(widgets, "w", empty(30))
	require.NoError(t, err)
}

// A refusal lists 100 violations at most, each once.
func TestViolationsAreBounded(t *testing.T) {
	e := newEnv(t)
	for i := range 2 {
		e.limit(fmt.Sprint("l", i), `[{"type":"Container","min":`+quantities(fmt.Sprint("a", i), 60)+`}]`)
	}
	spec := strings.ReplaceAll(empty(30), "{}", `{"resources":{"requests":{"x":"1"}}}`)
	enough := strings.Trim(strings.ReplaceAll(quantities("a0", 60)+quantities("a1", 60), "}{", ","), "{}")
	_, err := e.create(widgets, "w", strings.ReplaceAll(spec, `"x":"1"`, enough))
	require.NoError(t, err)
	_, err = e.content(widgets).Update(e.ctx, space, object("w", spec))
	require.ErrorIs(t, err, namespace.ErrForbidden)
	require.Equal(t, 100, strings.Count(err.Error(), "No request is specified"))
	require.True(t, strings.HasSuffix(err.Error(), ".  No request is specified, and more]"), err)
}

// The annotation that lists defaults is bounded.
func TestNoteIsBounded(t *testing.T) {
	e := newEnv(t)
	e.limit("l", `[{"type":"Container","default":`+quantities("a.b", 100)+`}]`)
	o, err := e.create(widgets, "w", empty(40))
	require.NoError(t, err)
	note := o.Annotations["kubernetes.io/limit-ranger"]
	require.LessOrEqual(t, len(note), 4200)
	require.True(t, strings.HasPrefix(note, "LimitRanger plugin set: a.b/0, a.b/1, "), note)
	require.True(t, strings.HasSuffix(note, "; and more"), note)

	long := newEnv(t)
	long.limit("l", `[{"type":"Container","default":`+quantities(strings.Repeat("a", 60)+".b", 100)+`}]`)
	o, err = long.create(widgets, "w", empty(1))
	require.NoError(t, err)
	require.Equal(t, "LimitRanger plugin set: more than can be listed", o.Annotations["kubernetes.io/limit-ranger"])
}
