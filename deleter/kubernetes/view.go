package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// View implements [deleter.Viewer]. A page is handed out only if the namespace was this
// incarnation both before the request and after the answer, whatever its phase; a uid
// never comes back, so that everything listed belongs to it (rule R8).
func (c *content) View(ctx context.Context, target deleter.Target, limit int, next string) (deleter.Page, error) {
	if err := checkLook(ctx, target); err != nil {
		return deleter.Page{}, err
	}
	if err := c.checkList(limit); err != nil {
		return deleter.Page{}, err
	}
	if err := c.incarnations.exists(ctx, target, time.Time{}); err != nil { // ever will do
		return deleter.Page{}, err
	}
	list, err := c.request(ctx, target, limit, next)
	if err != nil {
		page, _, err := c.unlisted(ctx, target, next, err, c.incarnations.exists)
		return page, err
	}
	if err := c.incarnations.exists(ctx, target, time.Now()); err != nil {
		return deleter.Page{}, err
	}
	return pageOf(list), nil
}

// Look reports what is in the target and deletes nothing, see [deleter.Composed.Inspect];
// the namespace may be Active if the target's DeletedAt is zero. It makes a discovery
// first.
func (d *Deleter) Inspect(ctx context.Context, target deleter.Target) (deleter.Report, error) {
	v, report, err := d.beforeLook(ctx, target)
	if err != nil {
		return report, err
	}
	return v.composed.Inspect(carrying(ctx, v, false), target)
}

// Inventory lists every object in the target, see [deleter.Composed.Inventory], under the
// terms of Look.
func (d *Deleter) Inventory(ctx context.Context, target deleter.Target) (deleter.Inventory, error) {
	v, report, err := d.beforeLook(ctx, target)
	if err != nil {
		return deleter.Inventory{Report: report}, err
	}
	return v.composed.Inventory(carrying(ctx, v, false), target)
}

// beforeLook returns what a discovery finds, or the report of a look that could not begin.
func (d *Deleter) beforeLook(ctx context.Context, target deleter.Target) (*view, deleter.Report, error) {
	report := deleter.Report{UID: target.UID}
	if err := checkLook(ctx, target); err != nil {
		report.Failed = err
		return nil, report, err
	}
	v, err := d.catalog.fresh(ctx)
	if err != nil {
		undiscovered(ctx, &report, err)
		return nil, report, report.Err()
	}
	return v, report, nil
}

func checkLook(ctx context.Context, target deleter.Target) error {
	if ctx == nil {
		return fmt.Errorf("%w context: is nil", deleter.ErrInvalid)
	}
	if err := target.ValidateView(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
