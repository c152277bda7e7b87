package arrival

import (
	"fmt"
	"math"
	"slices"
)

// Kinds of shapes.
const (
	Constant = "constant"
	Ramp     = "ramp"
	Steps    = "steps"
)

// Shape is how the intended rate changes with time.
type Shape struct {
	Kind string `json:"kind"`
	// RateRPS is the rate of a constant shape.
	RateRPS float64 `json:"rate_rps,omitempty"`
	// A ramp goes linearly from FromRPS to ToRPS in OverS seconds and then stays
	// there.
	FromRPS float64 `json:"from_rps,omitempty"`
	ToRPS   float64 `json:"to_rps,omitempty"`
	OverS   float64 `json:"over_s,omitempty"`
	// Steps follow one another; the last one's rate continues.
	Steps []Step `json:"steps,omitempty"`
}

// Step is a rate held for a period.
type Step struct {
	RateRPS   float64 `json:"rate_rps"`
	DurationS float64 `json:"duration_s"`
}

const (
	maxRate  = 1e8
	maxSteps = 10_000
)

func rateOK(r float64) bool { return r >= 0 && r <= maxRate }

// Validate checks the shape.
func (s Shape) Validate() error {
	switch s.Kind {
	case Constant:
		if !rateOK(s.RateRPS) || s.RateRPS == 0 {
			return fmt.Errorf("rate_rps %v: must be positive and at most %.0f", s.RateRPS, float64(maxRate))
		}
	case Ramp:
		if !rateOK(s.FromRPS) || !rateOK(s.ToRPS) || s.FromRPS+s.ToRPS == 0 {
			return fmt.Errorf("ramp from %v to %v: rates must be between 0 and %.0f, and not both 0", s.FromRPS, s.ToRPS, float64(maxRate))
		}
		if !(s.OverS > 0) || s.OverS > 1e7 {
			return fmt.Errorf("over_s %v: must be positive", s.OverS)
		}
	case Steps:
		if len(s.Steps) == 0 || len(s.Steps) > maxSteps {
			return fmt.Errorf("steps: must be 1 to %d, not %d", maxSteps, len(s.Steps))
		}
		sum := 0.0
		for i, step := range s.Steps {
			if !rateOK(step.RateRPS) {
				return fmt.Errorf("steps[%d]: rate_rps %v: must be between 0 and %.0f", i, step.RateRPS, float64(maxRate))
			}
			if !(step.DurationS > 0) || step.DurationS > 1e7 {
				return fmt.Errorf("steps[%d]: duration_s %v: must be positive", i, step.DurationS)
			}
			sum += step.RateRPS
		}
		if sum == 0 {
			return fmt.Errorf("steps: every rate is 0")
		}
	default:
		return fmt.Errorf("kind %q: must be constant, ramp or steps", s.Kind)
	}
	return nil
}

// segment is a period in which the rate changes linearly.
type segment struct {
	start float64 // seconds
	count float64 // intended requests before start
	rate  float64 // at start
	slope float64 // change of rate per second
	end   float64 // seconds; +Inf for the last
}

// segments returns the shape from 0 to infinity.
func (s Shape) segments() []segment {
	var out []segment
	add := func(rate, slope, duration float64) {
		seg := segment{rate: rate, slope: slope, end: math.Inf(1)}
		if n := len(out); n > 0 {
			last := out[n-1]
			d := last.end - last.start
			seg.start = last.end
			seg.count = last.count + last.rate*d + last.slope*d*d/2
		}
		seg.end = seg.start + duration
		out = append(out, seg)
	}
	forever := math.Inf(1)
	switch s.Kind {
	case Constant:
		add(s.RateRPS, 0, forever)
	case Ramp:
		add(s.FromRPS, (s.ToRPS-s.FromRPS)/s.OverS, s.OverS)
		add(s.ToRPS, 0, forever)
	case Steps:
		for i, step := range s.Steps {
			d := step.DurationS
			if i == len(s.Steps)-1 {
				d = forever
			}
			add(step.RateRPS, 0, d)
		}
	}
	return out
}

// changed returns segments up to at (seconds), and the constant rate from there on.
func changed(segments []segment, at, rate float64) []segment {
	var out []segment
	last := segment{start: at, rate: rate, end: math.Inf(1)}
	for _, seg := range segments {
		d := min(seg.end, at) - seg.start
		if d <= 0 {
			break
		}
		last.count = seg.count + seg.rate*d + seg.slope*d*d/2
		seg.end = min(seg.end, at)
		out = append(out, seg)
	}
	return append(out, last)
}

// Scaled returns the shape with its rates multiplied by f.
func (s Shape) Scaled(f float64) Shape {
	s.RateRPS *= f
	s.FromRPS *= f
	s.ToRPS *= f
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		s.Steps[i].RateRPS *= f
	}
	return s
}

// Expected returns the intended number of requests in durationS seconds.
func (s Shape) Expected(durationS float64) float64 {
	all := changed(s.segments(), durationS, 0)
	return all[len(all)-1].count
}

// Reaching returns the time in seconds by which n requests are due; +Inf if they never are.
func (s Shape) Reaching(n float64) float64 {
	all := s.segments()
	i := len(all) - 1
	for i > 0 && all[i].count >= n {
		i--
	}
	return all[i].at(n)
}

// at returns the time in seconds at which the segment's cumulative count
// reaches n, for n at least its own count; +Inf if it never does.
func (g *segment) at(n float64) float64 {
	n -= g.count
	if n <= 0 {
		return g.start
	}
	if g.slope == 0 {
		if g.rate == 0 {
			return math.Inf(1)
		}
		return g.start + n/g.rate
	}
	// n = rate*t + slope*t*t/2, solved for the first t > 0 in the form that
	// does not cancel.
	d := g.rate*g.rate + 2*g.slope*n
	if d < 0 {
		return math.Inf(1)
	}
	return g.start + 2*n/(g.rate+math.Sqrt(d))
}
