package controller

import (
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// snapshot is the part of a namespace's last report that its next pass needs: the resource
// types that are empty for good, the objects that the others have left, and how long the
// report was not final. It takes tens of bytes; a report takes thousands.
type snapshot struct {
	clean       []uint64 // a bit for each resource type, by its number in the catalog
	left        []left
	provisional time.Duration
	taken       bool // false for the zero snapshot: there was no pass
}

// left is one result of a report, or with lastSeen one entry of its LastSeen, of which only
// remaining and number are set.
type left struct {
	seen      string
	remaining int
	deleting  int
	number    uint32
	more      bool
	failed    bool
	lastSeen  bool
}

// errBefore stands in a restored report for an error of the last pass.
var errBefore = errors.New("failed in the last pass")

// catalog numbers the resource types in reports.
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

// snapshot returns a snapshot of r.
func (c *catalog) snapshot(r deleter.Report) snapshot {
	m := snapshot{provisional: r.Provisional, taken: true}
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
		m.left = append(m.left, left{remaining: s.Objects, number: c.number(s.Resource), lastSeen: true})
	}
	m.clean, m.left = slices.Clip(m.clean), slices.Clip(m.left)
	return m
}

// restore returns the report of the incarnation uid that m was taken of, as far as m has it.
func (c *catalog) restore(uid string, m snapshot) deleter.Report {
	if !m.taken {
		return deleter.Report{}
	}
	r := deleter.Report{UID: uid, Provisional: m.provisional}
	for i, word := range m.clean {
		for ; word != 0; word &= word - 1 {
			r.Clean = append(r.Clean, c.resources[i*64+bits.TrailingZeros64(word)])
		}
	}
	slices.SortFunc(r.Clean, namespace.ResourceType.Compare)
	for _, l := range m.left {
		if l.lastSeen {
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
func (m snapshot) cleaned() int {
	n := 0
	for _, word := range m.clean {
		n += bits.OnesCount64(word)
	}
	return n
}
