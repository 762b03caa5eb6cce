package contenttest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nslifecycle/nslifecycle/deleter"
)

func checkCapabilities(p *probe) error {
	target, err := p.seed("capabilities")
	if err != nil {
		return err
	}
	c, hasCollections := p.Content.(deleter.CollectionDeleter)
	if hasCollections {
		_, _, err := c.DeleteCollection(p.ctx, target)
		hasCollections = !errors.Is(err, deleter.ErrNotSupported)
	}
	e, hasEstimates := p.Content.(deleter.Estimator)
	if hasEstimates {
		_, err := e.Estimate(p.ctx, target)
		hasEstimates = !errors.Is(err, deleter.ErrNotSupported)
	}
	v, hasViews := p.Content.(deleter.Viewer)
	if hasViews {
		_, err := v.View(p.ctx, target, 0, "")
		hasViews = !errors.Is(err, deleter.ErrNotSupported)
	}
	n, hasCounts := p.Content.(deleter.Counter)
	if hasCounts {
		_, err := n.Count(p.ctx, target)
		hasCounts = !errors.Is(err, deleter.ErrNotSupported)
	}
	_, hasWait := p.Content.(deleter.Notifier)
	for _, one := range []struct {
		name          string
		declared, has bool
	}{
		{"Collections", p.Collections, hasCollections},
		{"Estimates", p.Estimates, hasEstimates},
		{"Notifies", p.Notifies, p.Notifies && hasWait},
		{"Views", p.Views, hasViews},
		{"Counts", p.Counts, hasCounts},
	} {
		if one.declared != one.has {
			return fmt.Errorf("the backend declares %s: %t, but for %T it is %t", one.name, one.declared, p.Content, one.has)
		}
	}
	return nil
}

func checkList(p *probe) error {
	want := []string{"apple", "banana", "cherry"}
	target, err := p.seed("lists", want...)
	if err != nil {
		return err
	}
	items, err := p.lists(target, 0, want...)
	if err != nil {
		return err
	}
	uids := map[string]string{}
	for _, item := range items {
		if item.Deleting || item.Grace > 0 || len(item.Finalizers) > 0 {
			return fmt.Errorf("%s is neither held nor being deleted, but is listed as %+v", item.Name, item)
		}
		if p.UIDs != (item.UID != "") {
			return fmt.Errorf("the backend declares UIDs: %t, but %s is listed with uid %q", p.UIDs, item.Name, item.UID)
		}
		if other := uids[item.UID]; p.UIDs && other != "" {
			return fmt.Errorf("%s and %s are listed with the same uid %q", other, item.Name, item.UID)
		}
		uids[item.UID] = item.Name
	}
	return p.expectNames(target, "List", want...)
}

func checkListNothing(p *probe) error {
	target, err := p.seed("empty")
	if err != nil {
		return err
	}
	_, err = p.lists(target, 0)
	return err
}

func checkPages(p *probe) error {
	want := numbered(23)
	target, err := p.seed("pages", want...)
	if err != nil {
		return err
	}
	for _, limit := range []int{1, 2, 7, 22, 23, 24, 1000} {
		if _, err := p.lists(target, limit, want...); err != nil {
			return err
		}
	}
	return nil
}

// checkPagesWhileDeleting deletes every second object of each page before it requests the next
// page; no other may be missed or listed twice.
func checkPagesWhileDeleting(p *probe) error {
	all := numbered(24)
	target, err := p.seed("moving", all...)
	if err != nil {
		return err
	}
	var listed []string
	next := ""
	for pages := 0; ; pages++ {
		page, err := p.Content.List(p.ctx, target, 5, next)
		if errors.Is(err, deleter.ErrExpired) && pages > 0 {
			return nil // the listing would start over
		}
		if err != nil {
			return fmt.Errorf("List of a page after deletions failed: %w", err)
		}
		for i, item := range page.Items {
			listed = append(listed, item.Name)
			if i%2 == 1 {
				continue
			}
			if err := p.deletes(target, item.Name, item.UID); err != nil {
				return err
			}
		}
		if page.Next == "" || pages > len(all) {
			break
		}
		next = page.Next
	}
	slices.Sort(listed)
	if !slices.Equal(listed, all) {
		return fmt.Errorf("of %d objects that existed when their page was read, these were listed: %v", len(all), listed)
	}
	return nil
}

func checkDelete(p *probe) error {
	target, err := p.seed("delete", "apple", "apple-2", "banana")
	if err != nil {
		return err
	}
	if err := p.deletes(target, "apple", ""); err != nil {
		return err
	}
	if _, err := p.lists(target, 0, "apple-2", "banana"); err != nil {
		return err
	}
	return p.expectNames(target, "Delete of apple", "apple-2", "banana")
}

func checkDeleteMissing(p *probe) error {
	target, err := p.seed("missing", "apple", "banana")
	if err != nil {
		return err
	}
	for _, name := range []string{"cherry", "apple", "apple"} {
		if err := p.deletes(target, name, ""); err != nil {
			return err
		}
	}
	return p.expectNames(target, "Delete of cherry (missing) and apple (twice)", "banana")
}

func checkDeleteHeld(p *probe) error {
	target, err := p.seedObjects("held", Object{Name: "free"}, Object{Name: "held", Finalizers: []string{hold}})
	if err != nil {
		return err
	}
	items, err := p.lists(target, 0, "free", "held")
	if err != nil {
		return err
	}
	if items[1].Deleting || !slices.Equal(items[1].Finalizers, []string{hold}) {
		return fmt.Errorf("before its deletion the held object should be listed with finalizer %s and not Deleting, but is %+v", hold, items[1])
	}
	for range 2 { // the second time as another pass would
		for _, item := range items {
			if err := p.deletes(target, item.Name, item.UID); err != nil {
				return err
			}
		}
		after, err := p.lists(target, 0, "held")
		if err != nil {
			return err
		}
		if !after[0].Deleting || !slices.Equal(after[0].Finalizers, []string{hold}) {
			return fmt.Errorf("after its deletion the held object should be listed as Deleting with finalizer %s, but is %+v", hold, after[0])
		}
	}
	if err := p.Release(p.ctx, target, "held"); err != nil {
		return fmt.Errorf("the backend's Release failed: %w", err)
	}
	if _, err := p.lists(target, 0); err != nil {
		return err
	}
	return p.expectNames(target, "Delete and Release")
}

func checkDeleteByUID(p *probe) error {
	target, err := p.seed("by-uid", "apple", "banana")
	if err != nil {
		return err
	}
	items, err := p.lists(target, 0, "apple", "banana")
	if err != nil {
		return err
	}
	if err := p.Content.Delete(p.ctx, target, "apple", items[1].UID); !errors.Is(err, deleter.ErrReplaced) {
		return fmt.Errorf("Delete of apple with the uid of banana should fail with ErrReplaced, got: %w", orNil(err))
	}
	if err := p.expectNames(target, "Delete with a wrong uid", "apple", "banana"); err != nil {
		return err
	}
	if err := p.deletes(target, "apple", items[0].UID); err != nil {
		return err
	}
	return p.expectNames(target, "Delete with the right uid", "banana")
}

var errNil = errors.New("no error")

func orNil(err error) error {
	if err == nil {
		return errNil
	}
	return err
}
