package load

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// law is the expected distribution of the gaps of a run's shards.
type law struct {
	process string
	every   int // a shard sends every n-th request of the process, for n = every
	// apart is the mean distance of a shard's successive requests among all requests: more
	// than every if several generators divided them at random.
	apart int
}

// law returns the law of the Spec's arrivals.
func (s *Spec) law() law {
	l := law{process: s.Arrival, every: 1}
	if t, err := s.parseTarget(); err == nil && t.looped() {
		l.every = max(1, s.Threads)
	}
	l.apart = l.every
	return l
}

// law returns the law of the result of one or all generators.
func (r *Result) law() law {
	l := r.Spec.law()
	l.apart *= max(1, r.dealt)
	return l
}

// neighbours returns the autocorrelation rho of the schedule's successive requests, given r,
// that of each shard's. If shards take turns, a shard's neighbours are n apart, and r is rho
// to the n. If generators divide Poisson arrivals at random, each request belongs to the shard
// with probability p, and r is the mean of rho to the n over that geometric n:
// p*rho/(1-(1-p)*rho).
func (l law) neighbours(r float64) float64 {
	if l.apart <= 1 {
		return r
	}
	r = max(r, 0)
	if l.process != Poisson {
		return math.Pow(r, 1/float64(l.apart))
	}
	r = math.Pow(r, 1/float64(l.every)) // of one generator's neighbours
	p := float64(l.every) / float64(l.apart)
	return r / (p + (1-p)*r)
}

// Schedule returns how well the generator kept the intended arrivals; nil if no gaps are
// known.
func (w *Window) Schedule() *record.Schedule {
	g := &w.Gaps
	if g.N == 0 {
		return nil
	}
	out := &record.Schedule{Process: w.law.process, Gaps: g.N, AchievedRatio: g.RateRatio()}
	if w.law.process != Poisson {
		out.Distance = g.MeanOff()
		return out
	}
	out.Distance = g.Distance(w.law.every)
	p := arrival.ByChance(out.Distance, g.N)
	out.PValue = &p
	out.AchievedError = 1 / math.Sqrt(float64(g.N)*float64(w.law.every))
	return out
}

// Dependence returns the autocorrelation of successive latencies, nil if unknown, and the
// number of independent requests that the completed ones are worth, 0 if unknown. With several
// threads or generators, whose requests are not successive in the schedule, it assumes a
// first-order autoregressive series.
func (w *Window) Dependence() (rho *float64, effective float64) {
	r := w.Serial.Correlation()
	if math.IsNaN(r) {
		return nil, 0
	}
	r = w.law.neighbours(r)
	return &r, stat.EffectiveSize(w.Completed, r)
}

// scheduleWords warns of arrivals that deviate from the intended ones by more than chance and
// the time to send a request explain.
func scheduleWords(w *Window) (out []string) {
	s := w.Schedule()
	switch {
	case s == nil:
		return nil
	case s.Process == Poisson:
		rate := float64(s.Gaps) / (float64(w.DurationNS) / 1e9) / float64(w.law.apart)
		if s.Distance > arrival.OddDistance+arrival.ChanceDistance(s.Gaps)+arrival.Serialised(sendS, rate) {
			out = append(out, fmt.Sprintf("the generator's arrivals are not a Poisson process: the distance of their gaps from an exponential distribution is %.3f; the generator may have been delayed", s.Distance))
		}
	case s.Distance > arrival.OddUneven:
		out = append(out, fmt.Sprintf("the generator's arrivals are not uniform: their gaps deviate by %.0f%% of the requested gap; the generator may have been delayed", s.Distance*100))
	}
	if off := s.AchievedRatio - 1; math.Abs(off) > arrival.MaxRateOff+arrival.ChanceRate*s.AchievedError {
		out = append(out, fmt.Sprintf("the generator itself reached only %.1f%% of the requested rate", s.AchievedRatio*100))
	}
	return out
}

// sendS is how long sending a request may take, in seconds.
const sendS = 10e-6
