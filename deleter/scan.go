package deleter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxRestarts bounds how often a listing begins anew because its token expired.
const maxRestarts = 3

// scan lists page by page until the end or until take returns false; take adds the items
// of a page to the tally. If a token expires, the listing starts over. On an error scan
// returns the largest tally of all attempts.
func (v *visit) scan(ctx context.Context, take func(*tally, Page) bool) (*tally, error) {
	var most *tally
	for restarts := 0; ; restarts++ {
		t := &tally{samples: v.opts.Samples}
		err := v.pages(ctx, t, take)
		if err == nil {
			return t, nil
		}
		if most == nil || t.count >= most.count {
			most = t
		}
		if !errors.Is(err, ErrExpired) || restarts == maxRestarts {
			return most, err
		}
	}
}

// list asks for one page.
func (v *visit) list(ctx context.Context, next string) (Page, error) {
	if v.viewer != nil {
		return v.viewer.View(ctx, v.target, v.opts.PageSize, next)
	}
	return v.source.Content.List(ctx, v.target, v.opts.PageSize, next)
}

func (v *visit) pages(ctx context.Context, t *tally, take func(*tally, Page) bool) error {
	next, op := "", OpList
	if v.viewer != nil {
		op = OpView
	}
	var tokens circle
	for first := true; ; first = false {
		var page Page
		err := v.call(ctx, op, func(ctx context.Context) (_ int, err error) {
			page, err = v.list(ctx, next)
			return len(page.Items), err
		})
		v.sight = max(v.sight, plus(t.count+len(page.Items), max(page.Remaining, 0))) // also of a page that came too late
		if err != nil {
			return err
		}
		if first {
			// The first page's mark: what goes between two pages must wake a Notifier too.
			t.seen = page.Seen
		}
		if i := slices.IndexFunc(page.Items, func(item Item) bool { return item.Name == "" }); i >= 0 {
			t.add(page.Items[:i]...)
			return errNoName
		}
		more := take(t, page)
		switch {
		case page.Next == "":
			return nil
		case !more:
			t.count = plus(t.count, max(page.Remaining, 0))
			return context.Cause(ctx)
		case tokens.closes(page.Next):
			return errSameToken
		}
		next = page.Next
	}
}

// circle notices when a sequence of tokens repeats itself, whatever the length of
// the loop, by comparing each with one that it remembers and renews ever more rarely.
type circle struct {
	mark        string
	steps, upTo int
}

func (c *circle) closes(token string) bool {
	if c.upTo > 0 && token == c.mark {
		return true
	}
	if c.steps++; c.steps > c.upTo {
		c.mark, c.steps, c.upTo = token, 0, max(1, 2*c.upTo)
	}
	return false
}

// bounded calls f with a deadline and turns a panic into an error. An answer that
// comes after the deadline counts as none: it may be an empty page that means "ended".
func bounded(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := safely(func() error { return f(within) })
	if within.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		if err == nil {
			return context.Cause(ctx)
		}
		return err
	}
	if err == nil {
		err = within.Err()
	}
	return fmt.Errorf("no answer within %v: %w", timeout, err)
}
