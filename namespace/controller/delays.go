package controller

import (
	"math"
	"math/rand/v2"
	"time"
)

// delays is an exponential backoff.
type delays struct{ first, longest time.Duration }

// after returns the delay after so many tries before: the first doubled as often,
// at most the longest, cut by up to a quarter at random so that what failed together
// is not tried again together.
func (d delays) after(tries uint8) time.Duration {
	delay := doubled(d.first, tries, d.longest)
	return delay - time.Duration(rand.Int64N(int64(delay/4)+1))
}

// doubled returns d doubled n times, at most limit.
func doubled(d time.Duration, n uint8, limit time.Duration) time.Duration {
	if n >= 63 || d > limit>>n {
		return limit
	}
	return d << n
}

// more counts one up without overflow.
func more(n uint8) uint8 {
	if n == math.MaxUint8 {
		return n
	}
	return n + 1
}
