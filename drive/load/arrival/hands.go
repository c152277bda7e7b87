package arrival

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Hand is one of Of generators that deal the requests of one schedule out among
// themselves: what all of them get together is the schedule.
type Hand struct{ Index, Of int }

// dealStream tells the numbers by which requests are dealt out from others of the
// same seed.
const dealStream = 0x68616e6473

// dealer says of the arrivals of a process, one after the other, whether they are
// a hand's.
type dealer struct {
	hand   Hand
	source rand.PCG
}

func newDealer(h Hand, seed uint64) dealer {
	return dealer{hand: h, source: *rand.NewPCG(seed, dealStream)}
}

// mine draws whose the next arrival is: each hand's as often, whatever became of
// those before. So a hand's share of a Poisson process is one as well.
func (d *dealer) mine() bool {
	if d.hand.Of <= 1 {
		return true
	}
	// The high word of a 128-bit product is uniform to within Of/2^64.
	whose, _ := bits.Mul64(d.source.Uint64(), uint64(d.hand.Of))
	return int(whose) == d.hand.Index
}

// PoissonOf is what a hand gets of [Poisson].
func PoissonOf(h Hand, shape Shape, durationS float64, seed uint64) Changing {
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

// RepeatingOf is what a hand gets, the same in each period, of the Poisson process of a
// constant rate whose arrivals begin anew after each: every stretch of that length,
// wherever it begins, has the same arrivals, turned round. Within such a stretch it is
// a Poisson process, as one that forgets may begin anew at any time. periodS is in
// seconds.
//
// A period in which the seed has no arrival would never have one: the schedule of
// such a seed does not repeat.
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

// BurstOf is what a hand gets of [Burst]: of the requests of each group those from
// one number to another, counted from 0.
func BurstOf(from, to int, shape Shape, durationS float64, size int) Changing {
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
