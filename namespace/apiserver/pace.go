package apiserver

import "time"

// pace is how a client keeps up with what it is sent. It may be behind by some time,
// its credit. Waiting for it uses that up, and what it takes, as well as the time in
// which there is nothing for it, restores it: so a client that takes little at a time
// has no more time for all of it than one that stops and goes on.
type pace struct {
	most   time.Duration
	rate   int // bytes a second
	credit time.Duration
	last   time.Time // when what is being written, or was last, began or ended
}

func newPace(l Limits) pace { return pace{most: l.Stall, rate: l.Rate, credit: l.Stall} }

// begin returns how long the client has for what is written next.
func (p *pace) begin(now time.Time) time.Duration {
	if !p.last.IsZero() {
		p.restore(now.Sub(p.last))
	}
	p.last = now
	return p.credit
}

// took notes that the client took n bytes of what was begun last.
func (p *pace) took(now time.Time, n int) {
	p.credit -= now.Sub(p.last)
	p.last = now
	p.restore(time.Duration(n) * time.Second / time.Duration(p.rate))
}

func (p *pace) restore(by time.Duration) { p.credit = min(p.most, max(0, p.credit)+by) }
