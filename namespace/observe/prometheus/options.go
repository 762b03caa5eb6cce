package prometheus

import (
	"fmt"
	"math"
	"slices"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Options are what a host may choose. The zero value of each field, and a nil
// *Options, stand for the default; what makes no sense is refused by [New].
type Options struct {
	// Resources bounds how many resource types get a label of their own; default 200.
	// The others are counted together, as the resource "other".
	Resources int
	// WorkBuckets are the upper bounds, in seconds, of the histogram of passes; default
	// 5 ms to 82 s, each twice the one before.
	WorkBuckets []float64
	// DeletionBuckets are those of the histogram of deletions; default 50 ms to 9 days,
	// each four times the one before.
	DeletionBuckets []float64
}

const (
	defaultResources = 200
	maxBuckets       = 1000
)

// withDefaults returns the options to work with.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Resources < 0 {
		return opts, invalid("Options.Resources cannot be negative, got %d", opts.Resources)
	}
	if opts.Resources == 0 {
		opts.Resources = defaultResources
	}
	if err := checkBuckets("Options.WorkBuckets", opts.WorkBuckets); err != nil {
		return opts, err
	}
	if err := checkBuckets("Options.DeletionBuckets", opts.DeletionBuckets); err != nil {
		return opts, err
	}
	opts.WorkBuckets, opts.DeletionBuckets = slices.Clone(opts.WorkBuckets), slices.Clone(opts.DeletionBuckets)
	if len(opts.WorkBuckets) == 0 {
		opts.WorkBuckets = client.ExponentialBuckets(0.005, 2, 15)
	}
	if len(opts.DeletionBuckets) == 0 {
		opts.DeletionBuckets = client.ExponentialBuckets(0.05, 4, 13)
	}
	return opts, nil
}

// checkBuckets refuses what no histogram can be made of: the client would panic.
func checkBuckets(field string, bounds []float64) error {
	if len(bounds) > maxBuckets {
		return invalid("%s has %d bounds, at most %d are allowed", field, len(bounds), maxBuckets)
	}
	for i, b := range bounds {
		switch {
		case math.IsNaN(b), math.IsInf(b, -1):
			return invalid("%s[%d] is %v, which is no bound", field, i, b)
		case i > 0 && b <= bounds[i-1]:
			return invalid("%s[%d] (%v) must be greater than the one before (%v)", field, i, b, bounds[i-1])
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: "namespaces", Message: "metrics: " + fmt.Sprintf(format, args...)}
}
