package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// protections returns every protection, also those that cannot be read, sorted by name:
// each of them refuses.
func protections(m namespace.Meta) []declare.Protection {
	list, _ := declare.Protections(m)
	for key := range m.Annotations {
		name, ok := strings.CutPrefix(key, declare.ProtectionPrefix)
		if ok && !slices.ContainsFunc(list, func(p declare.Protection) bool { return p.Name == name }) {
			list = append(list, declare.Protection{Name: name})
		}
	}
	slices.SortFunc(list, func(a, b declare.Protection) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func (b *builder) protected(p declare.Protection) Cause {
	c := Cause{
		Kind: Protected, Source: p.Name,
		Summary: fmt.Sprintf("it cannot be deleted: %s protects it (%s: %s)", p.Name, p.Owner, p.Reason),
		Remedy: Remedy{
			Text:    fmt.Sprintf("Ask %s; then take the protection off and delete the namespace.", p.Owner),
			Command: b.kubectl("annotate", "namespace", b.d.Name, declare.ProtectionPrefix+p.Name+"-"),
		},
	}
	if p.Owner == "" {
		c.Summary = fmt.Sprintf("it cannot be deleted: %s protects it, whose owner and reason cannot be read", p.Name)
		c.Remedy.Text = "Find out who set it; then take the protection off and delete the namespace."
	}
	return c
}

func (b *builder) onHold(h declare.Hold, err error) Cause {
	c := Cause{
		Kind: OnHold,
		Remedy: Remedy{
			Text:    "To keep the namespace, take the hold off before that (Registry.Restore).",
			Command: b.kubectl("annotate", "namespace", b.d.Name, declare.HoldAnnotation+"-"),
		},
	}
	if err != nil {
		c.Summary = "its hold cannot be read, so nobody will delete it: " + brief(err.Error(), maxText)
		c.Remedy.Text = "Set the hold anew, or take it off and delete the namespace."
		return c
	}
	by := ""
	if h.By != "" {
		by = " by " + h.By
	}
	if h.Reason != "" {
		by += ": " + h.Reason
	}
	if b.in.Now.Before(h.Until) {
		c.Summary = fmt.Sprintf("it is on hold and will be deleted in %s, at %s%s", human(h.Until.Sub(b.in.Now)), clock(h.Until, b.d.At), by)
	} else {
		c.Summary = fmt.Sprintf("its hold was over %s ago, and nobody has deleted it%s", human(b.age(h.Until)), by)
		c.Since = h.Until
		c.Remedy.Text = "See that hold.Run is running and what it logs; or delete the namespace now."
		c.Remedy.Command = b.kubectl("delete", "namespace", b.d.Name)
	}
	if b.has(Protected) {
		c.Detail = "at that time its protections will refuse the deletion"
	}
	return c
}

func (b *builder) notTerminating() Cause {
	return Cause{
		Kind: NotTerminating, Since: b.d.Since, Summary: "it is not being deleted: nobody has asked for that",
		Remedy: Remedy{Text: "Nothing is wrong, and nothing is to be done."},
	}
}

func (b *builder) absent() Cause {
	h := b.in.History
	c := Cause{Kind: Gone, Since: h.Ended, Summary: "there is no such namespace any more", Remedy: Remedy{Text: "Nothing is to be done."}}
	switch {
	case h.UID == "" && len(b.in.Records) == 0:
		return Cause{
			Kind: NotFound, Summary: "there is no such namespace, and nothing is known here of an earlier one",
			Remedy: Remedy{Text: "Check the name.", Command: b.kubectl("get", "namespaces")},
		}
	case len(b.forces) > 0 && h.Ended.IsZero():
		c.Since = b.forces[0].last().Time
		for _, f := range b.forces {
			c.Since = later(c.Since, f.last().Time)
		}
		c.Summary = fmt.Sprintf("there is no such namespace; finalizers of it were dropped by force %s ago", human(b.age(c.Since)))
	case !h.Ended.IsZero() && !h.Deleted.IsZero():
		c.Summary = fmt.Sprintf("it was removed %s ago, %s after its deletion", human(b.age(h.Ended)), human(h.Ended.Sub(h.Deleted)))
	case !h.Ended.IsZero():
		c.Summary = fmt.Sprintf("it was removed %s ago", human(b.age(h.Ended)))
	}
	if h.Total > 0 {
		c.Detail = fmt.Sprintf("%s removed in %s", objects(h.Removed), plural(h.Total, "pass", "passes"))
	}
	return c
}
