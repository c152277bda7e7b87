package push

import (
	"math"
	"math/rand/v2"
)

// Arrival processes of changes.
const (
	Poisson = "poisson" // as from many independent causes
	Uniform = "uniform" // evenly
)

// Schedule generates the changes up to a horizon: rate per second on average, of kinds by their
// weights, by an arrival process. The same seed gives the same changes, and a higher rate gives the
// same kinds in the same order.
func Schedule(process string, rate, horizon float64, kinds []Kind, seed uint64) []Change {
	rng := rand.New(rand.NewPCG(seed, 0x6361706163697479))
	gaps := rand.New(rand.NewPCG(seed, 0x67617073))
	total := 0.0
	for _, k := range kinds {
		total += k.Weight
	}
	var out []Change
	add := func(at float64) {
		pick := rng.Float64() * total
		kind := 0
		for i, k := range kinds {
			if pick -= k.Weight; pick < 0 || i == len(kinds)-1 {
				kind = i
				break
			}
		}
		out = append(out, Change{At: at, Kind: kind, Where: rng.Float64()})
	}
	if !(rate > 0) || !(horizon > 0) || !(total > 0) {
		return nil
	}
	for at := 0.0; len(out) < MaxChanges; {
		if process == Poisson {
			at -= math.Log1p(-gaps.Float64()) / rate
		} else {
			at += 1 / rate
		}
		if at >= horizon {
			break
		}
		add(at)
	}
	return out
}
