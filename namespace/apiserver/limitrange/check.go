package limitrange

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// check returns the violations of the limits, in Kubernetes' words.
func (p paths) check(o object, limits []limit) *violations {
	found := &violations{}
	var total *resources
	for _, l := range limits {
		switch {
		case found.more:
			return found
		case l.kind == container:
			for _, item := range o.items {
				l.check(item, found)
			}
		case l.kind != p.kind || p.kind == "":
		case o.own != nil:
			l.checkOwn(*o.own, found)
		default:
			if total == nil {
				sum := o.total()
				total = &sum
			}
			l.check(*total, found)
		}
	}
	return found
}

// check adds the violations of the limit by resources with requests and limits.
func (l limit) check(r resources, found *violations) {
	for _, name := range l.min.names() {
		found.add(l.below(name, r))
	}
	for _, name := range l.max.names() {
		found.add(l.above(name, r))
	}
	for _, name := range l.ratio.names() {
		found.add(l.aboveRatio(name, r))
	}
}

// checkOwn adds the violations of the limit by an object's own resources. Max requires a request
// instead of a limit.
func (l limit) checkOwn(r resources, found *violations) {
	for _, name := range l.min.names() {
		found.add(l.below(name, r))
	}
	for _, name := range l.max.names() {
		most := l.max[name]
		request, ok := r.requests[name]
		limit, has := r.limits[name]
		switch text := fmt.Sprintf("maximum %s usage per %s is %s", name, l.kind, most.String()); {
		case !ok:
			found.add(text + ".  No request is specified")
		case request.Cmp(most) > 0:
			found.add(text + ", but request is " + request.String())
		case has && limit.Cmp(most) > 0:
			found.add(text + ", but limit is " + limit.String())
		}
	}
	for _, name := range l.ratio.names() {
		found.add(l.aboveRatio(name, r))
	}
}

func (l limit) below(name string, r resources) string {
	least := l.min[name]
	request, ok := r.requests[name]
	limit, has := r.limits[name]
	switch text := fmt.Sprintf("minimum %s usage per %s is %s", name, l.kind, least.String()); {
	case !ok:
		return text + ".  No request is specified"
	case request.Cmp(least) < 0:
		return text + ", but request is " + request.String()
	case has && limit.Cmp(least) < 0:
		return text + ", but limit is " + limit.String()
	}
	return ""
}

func (l limit) above(name string, r resources) string {
	most := l.max[name]
	request, ok := r.requests[name]
	limit, has := r.limits[name]
	switch text := fmt.Sprintf("maximum %s usage per %s is %s", name, l.kind, most.String()); {
	case !has:
		return text + ".  No limit is specified"
	case limit.Cmp(most) > 0:
		return text + ", but limit is " + limit.String()
	case ok && request.Cmp(most) > 0:
		return text + ", but request is " + request.String()
	}
	return ""
}

func (l limit) aboveRatio(name string, r resources) string {
	ratio := l.ratio[name]
	request, ok := r.requests[name]
	limit, has := r.limits[name]
	switch text := fmt.Sprintf("%s max limit to request ratio per %s is %s", name, l.kind, ratio.String()); {
	case !ok || request.IsZero():
		return text + ", but no request is specified or request is 0"
	case !has || limit.IsZero():
		return text + ", but no limit is specified or limit is 0"
	case cmpProduct(request, ratio, limit) < 0:
		return text + ", but provided ratio is " + quotient(limit, request)
	}
	return ""
}

// cmpProduct compares a*b with c, exactly.
func cmpProduct(a, b, c resource.Quantity) int {
	a, b, c = a.DeepCopy(), b.DeepCopy(), c.DeepCopy()
	product := a.AsDec()
	return product.Mul(product, b.AsDec()).Cmp(c.AsDec())
}

// total returns the resources of all items together: for each name, the sum over all items other
// than init items, or the greatest quantity of an init item if that is greater.
func (o object) total() resources {
	sum := resources{requests: amounts{}, limits: amounts{}}
	for _, item := range o.items {
		if !item.init {
			add(sum.requests, item.requests)
			add(sum.limits, item.limits)
		}
	}
	for _, item := range o.items {
		if item.init {
			greatest(sum.requests, item.requests)
			greatest(sum.limits, item.limits)
		}
	}
	return sum
}

func add(into, from amounts) {
	for name, q := range from {
		total := into[name].DeepCopy()
		total.Add(q)
		into[name] = total
	}
}

func greatest(into, from amounts) {
	for name, q := range from {
		if most, ok := into[name]; !ok || q.Cmp(most) > 0 {
			into[name] = q
		}
	}
}
