package controller

import (
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// remembered is what is kept of the report of a namespace's last pass until its
// next one: which resource types are empty for good, what was left of the others,
// and for how long that was not final. It takes tens of bytes where a report takes thousands.
type remembered struct {
	clean   []uint64 // a bit for each resource type, by its number in the catalog
	left    []left
	settles time.Duration
	known   bool // there was a pass
}

// left is what was left of one type. Of a sight, which stands for one entry of
// [deleter.Report].LastSeen, only remaining and number are set.
type left struct {
	seen      string
	remaining int
	deleting  int
	number    uint32
	more      bool
	failed    bool
	sight     bool
}

// errBefore stands in a recalled report for an error of the pass before.
var errBefore = errors.New("failed in the pass before")

// catalog numbers the resource types that reports name.
type catalog struct {
	numbers   map[namespace.ResourceType]uint32
	resources []namespace.ResourceType
}

func (c *catalog) number(r namespace.ResourceType) uint32 {
	n, ok := c.numbers[r]
	if !ok {
		if c.numbers == nil {
			c.numbers = map[namespace.ResourceType]uint32{}
		}
		n = uint32(len(c.resources))
		c.numbers[r] = n
		c.resources = append(c.resources, r)
	}
	return n
}

// remember keeps of r what the next pass and a wait need.
func (c *catalog) remember(r deleter.Report) remembered {
	m := remembered{settles: r.Provisional, known: true}
	for _, resource := range r.Clean {
		n := c.number(resource)
		for int(n/64) >= len(m.clean) {
			m.clean = append(m.clean, 0)
		}
		m.clean[n/64] |= 1 << (n % 64)
	}
	for _, result := range r.Compact().Results {
		m.left = append(m.left, left{
			seen:      result.Seen,
			remaining: result.Remaining,
			deleting:  result.Deleting,
			number:    c.number(result.Resource),
			more:      result.More,
			failed:    result.Err != nil,
		})
	}
	for _, s := range r.LastSeen {
		m.left = append(m.left, left{remaining: s.Objects, number: c.number(s.Resource), sight: true})
	}
	m.clean, m.left = slices.Clip(m.clean), slices.Clip(m.left)
	return m
}

// recall returns the report of the incarnation uid that m was kept of, as far as
// it was kept; the zero Report if nothing was.
func (c *catalog) recall(uid string, m remembered) deleter.Report {
	if !m.known {
		return deleter.Report{}
	}
	r := deleter.Report{UID: uid, Provisional: m.settles}
	for i, word := range m.clean {
		for ; word != 0; word &= word - 1 {
			r.Clean = append(r.Clean, c.resources[i*64+bits.TrailingZeros64(word)])
		}
	}
	slices.SortFunc(r.Clean, namespace.ResourceType.Compare)
	for _, l := range m.left {
		if l.sight {
			r.LastSeen = append(r.LastSeen, deleter.ResourceCount{Resource: c.resources[l.number], Objects: l.remaining})
			continue
		}
		result := deleter.Result{
			Resource:  c.resources[l.number],
			Remaining: l.remaining,
			Deleting:  l.deleting,
			More:      l.more,
			Seen:      l.seen,
		}
		if l.failed {
			result.Err = errBefore
		}
		r.Results = append(r.Results, result)
	}
	return r
}

// cleaned returns the number of resource types that are empty for good.
func (m remembered) cleaned() int {
	n := 0
	for _, word := range m.clean {
		n += bits.OnesCount64(word)
	}
	return n
}
