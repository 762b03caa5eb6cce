package prometheus

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Options tunes a [Collector]. Zero fields take the defaults.
type Options struct {
	// Resources bounds how many resource types get their own label; default 200. All others
	// share the resource "other".
	Resources int
	// WorkBuckets are the upper bounds, in seconds, of the histogram of passes; default
	// 5 ms to 82 s, doubling.
	WorkBuckets []float64
	// DeletionBuckets are the upper bounds, in seconds, of the histogram of deletions;
	// default 50 ms to 9 days, quadrupling.
	DeletionBuckets []float64
}

const maxBuckets = 1000

func (o Options) withDefaults() Options {
	o.Resources = cmp.Or(o.Resources, 200)
	o.WorkBuckets, o.DeletionBuckets = slices.Clone(o.WorkBuckets), slices.Clone(o.DeletionBuckets)
	if len(o.WorkBuckets) == 0 {
		o.WorkBuckets = client.ExponentialBuckets(0.005, 2, 15)
	}
	if len(o.DeletionBuckets) == 0 {
		o.DeletionBuckets = client.ExponentialBuckets(0.05, 4, 13)
	}
	return o
}

func (o Options) validate() error {
	if o.Resources < 0 {
		return invalid("Options.Resources must not be negative, got %d", o.Resources)
	}
	if err := checkBuckets("Options.WorkBuckets", o.WorkBuckets); err != nil {
		return err
	}
	return checkBuckets("Options.DeletionBuckets", o.DeletionBuckets)
}

// checkBuckets rejects bounds with which the client would panic.
func checkBuckets(field string, bounds []float64) error {
	if len(bounds) > maxBuckets {
		return invalid("%s has %d bounds, at most %d are allowed", field, len(bounds), maxBuckets)
	}
	for i, b := range bounds {
		switch {
		case math.IsNaN(b), math.IsInf(b, -1):
			return invalid("%s[%d] must be a number, got %v", field, i, b)
		case i > 0 && b <= bounds[i-1]:
			return invalid("%s[%d] (%v) must be greater than the bound before it (%v)", field, i, b, bounds[i-1])
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: "namespaces", Message: "metrics: " + fmt.Sprintf(format, args...)}
}
