package debug

import (
	"fmt"
	"math"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
)

// The drawing of a timeline, in its own units.
const (
	timelineHeight = 56
	columnWidth    = 12
	columnGap      = 3
	leastHeight    = 3 // of a column, so that every pass is seen
	mostColumns    = 64
)

// timeline is the passes as columns, one each, as high as what remained after it.
type timeline struct {
	Width, Height int
	Columns       []column
	First, Last   time.Time
	Most          int // what the highest column stands for
}

type column struct {
	X, Y, Width, Height int
	Class               string
	Title               string
}

func newTimeline(passes []explain.Pass) timeline {
	if n := len(passes); n > mostColumns {
		passes = passes[n-mostColumns:]
	}
	if len(passes) == 0 {
		return timeline{}
	}
	t := timeline{
		Width:  len(passes)*(columnWidth+columnGap) - columnGap,
		Height: timelineHeight,
		First:  passes[0].Start, Last: passes[len(passes)-1].Start,
	}
	for _, p := range passes {
		t.Most = max(t.Most, p.Remaining)
	}
	for i, p := range passes {
		height := leastHeight
		if t.Most > 0 && p.Remaining > 0 {
			height += int(math.Round(float64(timelineHeight-leastHeight) * float64(p.Remaining) / float64(t.Most)))
		}
		t.Columns = append(t.Columns, column{
			X: i * (columnWidth + columnGap), Y: timelineHeight - height, Width: columnWidth, Height: height,
			Class: outcomeClass(p),
			Title: fmt.Sprintf("%s: %s, %s deleted, %s remaining, took %s", moment(p.Start), visible(p.Outcome),
				grouped(p.Deleted), grouped(p.Remaining), short(p.Took)),
		})
	}
	return t
}

// outcomeClass says how a pass is coloured.
func outcomeClass(p explain.Pass) string {
	switch {
	case p.Error != "" || p.Outcome == "failed":
		return "bad"
	case p.Remaining == 0:
		return "good"
	}
	return "busy"
}
