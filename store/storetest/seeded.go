package storetest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Rates holds the frequencies of the faults of a seeded plan. Each is a probability, from 0 to 1,
// for each call that the kind fits.
type Rates struct {
	Conflict float64 // of commits
	Lost     float64 // of commits
	Landed   float64 // of commits
	Fail     float64 // of all calls; a watch ends after at most Changes changes
	Gone     float64 // of watches, after at most Changes changes, and of listings at a position
	Delay    float64 // of all calls, with or without another fault

	MaxDelay time.Duration // the longest delay; zero means 1 ms
	Changes  int           // zero means that a watch ends before its first change
}

func (r Rates) check() error {
	for _, rate := range []struct {
		name string
		p    float64
	}{
		{"Conflict", r.Conflict}, {"Lost", r.Lost}, {"Landed", r.Landed}, {"Fail", r.Fail}, {"Gone", r.Gone}, {"Delay", r.Delay},
		{"Conflict + Lost + Landed + Fail", r.Conflict + r.Lost + r.Landed + r.Fail}, {"Fail + Gone", r.Fail + r.Gone},
	} {
		if !(rate.p >= 0 && rate.p <= 1) { // also rejects NaN
			return fmt.Errorf("%w: the rate %s is %v, it must be from 0 to 1", store.ErrInvalid, rate.name, rate.p)
		}
	}
	if r.MaxDelay < 0 || r.Changes < 0 {
		return fmt.Errorf("%w: MaxDelay is %v and Changes is %d, they must not be negative", store.ErrInvalid, r.MaxDelay, r.Changes)
	}
	return nil
}

// Seeded returns a plan with random faults. For the same seed and rates, the n-th call of a
// method has the same fault, regardless of calls of other methods. Rates out of range are
// [store.ErrInvalid].
func Seeded(seed uint64, rates Rates) (Plan, error) {
	if err := rates.check(); err != nil {
		return nil, err
	}
	if rates.MaxDelay == 0 {
		rates.MaxDelay = time.Millisecond
	}
	return func(a Attempt) Fault {
		method := fnv.New32a()
		_, _ = method.Write([]byte(a.Method)) // never fails
		return rates.draw(a.Method, rand.New(rand.NewPCG(seed, uint64(method.Sum32())<<32|uint64(uint32(a.N)))))
	}, nil
}

func (r Rates) draw(method string, random *rand.Rand) Fault {
	var fault Fault
	if random.Float64() < r.Delay {
		fault.Delay = time.Duration(random.Int64N(int64(r.MaxDelay))) + 1
	}
	fault.Changes = random.IntN(r.Changes + 1)
	p := random.Float64()
	for _, k := range r.kinds(method) {
		if p < k.rate {
			fault.Kind = k.kind
			break
		}
		p -= k.rate
	}
	return fault
}

type kindRate struct {
	kind Kind
	rate float64
}

// kinds returns the kinds that fit method.
func (r Rates) kinds(method string) []kindRate {
	switch method {
	case "commit":
		return []kindRate{{Fail, r.Fail}, {Conflict, r.Conflict}, {Lost, r.Lost}, {Landed, r.Landed}}
	case "list", "watch":
		return []kindRate{{Fail, r.Fail}, {Gone, r.Gone}}
	}
	return []kindRate{{Fail, r.Fail}}
}
