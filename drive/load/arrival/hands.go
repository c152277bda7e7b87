package arrival

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Hand is one of Of generators that divide the requests of one schedule.
type Hand struct{ Index, Of int }

// dealStream separates the random numbers of dealers from others with the same seed.
const dealStream = 0x68616e6473

// dealer decides for each arrival of a process, in order, whether it belongs to a hand.
type dealer struct {
	hand   Hand
	source rand.PCG
}

func newDealer(h Hand, seed uint64) dealer {
	return dealer{hand: h, source: *rand.NewPCG(seed, dealStream)}
}

// mine draws whether the next arrival belongs to the hand, independently and with equal
// probability for all hands. So a hand's share of a Poisson process is a Poisson process.
func (d *dealer) mine() bool {
	if d.hand.Of <= 1 {
		return true
	}
	// The high word of a 128-bit product is uniform to within Of/2^64.
	whose, _ := bits.Mul64(d.source.Uint64(), uint64(d.hand.Of))
	return int(whose) == d.hand.Index
}

// PoissonOf returns a hand's share of [Poisson].
func PoissonOf(h Hand, shape Shape, durationS float64, seed uint64) Schedule {
	rng, deal := rand.New(rand.NewPCG(seed, poissonStream)), newDealer(h, seed)
	at := 0.0
	return newTimed(shape, durationS, func() float64 {
		for {
			at += rng.ExpFloat64()
			if deal.mine() {
				return at
			}
		}
	})
}

// RepeatingOf returns a hand's share of a Poisson process of constant rate that repeats after
// periodS seconds: every window of that length, wherever it begins, has the same arrivals,
// rotated. Within such a window it is a Poisson process, which is memoryless.
//
// A seed without an arrival in the first period would never have one, so its schedule does
// not repeat.
func RepeatingOf(h Hand, rateRPS, periodS, durationS float64, seed uint64) Schedule {
	if rand.New(rand.NewPCG(seed, poissonStream)).ExpFloat64() >= rateRPS*periodS {
		return PoissonOf(h, Shape{Kind: Constant, RateRPS: rateRPS}, durationS, seed)
	}
	first, dealt, count := rand.NewPCG(seed, poissonStream), newDealer(h, seed), rateRPS*periodS
	source, deal := *first, dealt
	rng := rand.New(&source)
	begin, at := 0.0, 0.0
	return newTimed(Shape{Kind: Constant, RateRPS: rateRPS}, durationS, func() float64 {
		for periods := 0; periods < 2; {
			at += rng.ExpFloat64()
			for at >= count {
				source, deal, begin, at = *first, dealt, begin+count, 0
				at = rng.ExpFloat64()
				periods++
			}
			if deal.mine() {
				return begin + at
			}
		}
		return math.Inf(1) // a whole period had none for this hand
	})
}

// BurstOf returns a hand's share of [Burst]: requests from..to-1 of each group.
func BurstOf(from, to int, shape Shape, durationS float64, size int) Schedule {
	k := from - 1
	return newTimed(shape, durationS, func() float64 {
		k++
		switch r := k % size; {
		case r < from:
			k += from - r
		case r >= to:
			k += size - r + from
		}
		return float64(k - k%size)
	})
}
