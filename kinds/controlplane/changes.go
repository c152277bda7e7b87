package controlplane

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// ChangeRate is the rate of changes over time. Each part goes linearly from one rate to another,
// and the last part's final rate continues.
type ChangeRate struct {
	Kind  string // RateConstant, RateRamp or RateSteps
	Parts []RatePart
}

// RatePart is a period with the rates at both ends, per second.
type RatePart struct {
	From, To float64
	For      time.Duration
}

// Kinds of change rates, and the words of levels other than plain numbers.
const (
	RateConstant = "constant"
	RateRamp     = "ramp"
	RateSteps    = "steps"
)

// Limits of change rates.
const (
	maxChangeRate = 1000
	maxRateParts  = 100
	maxRateTime   = time.Hour
)

// changeRatePattern matches the levels of factor change_rate.
const changeRatePattern = `^([0-9]+(\.[0-9]+)?|ramp:[0-9.]+:[0-9.]+:[^:,]+|steps:[0-9.]+:[^:,]+(,[0-9.]+:[^:,]+)*)$`

const changeRateHint = "use changes per second (0.4), ramp:FROM:TO:TIME (ramp:1:20:30s) or steps:RATE:TIME,RATE:TIME (steps:1:10s,8:5s)"

// parseChangeRate parses a level of factor change_rate. Ramps and steps have the format of the load
// generator's flags --ramp and --steps.
func parseChangeRate(s string) (ChangeRate, *study.Error) {
	kind, rest, worded := strings.Cut(s, ":")
	rate := func(text string, least float64) (float64, *study.Error) {
		v, c := study.Number(text)
		if c == nil && (v < least || v > maxChangeRate) {
			c = study.Complain(study.CodeRange, fmt.Sprintf("use at most %d changes per second", maxChangeRate), "rate %s is out of range", study.Clip(text, 20))
		}
		return v, c
	}
	length := func(text string) (time.Duration, *study.Error) {
		d, c := study.ParseDuration(text)
		if c == nil && (d <= 0 || d > maxRateTime) {
			c = study.Complain(study.CodeRange, "from above 0 to 1h", "time %s is out of range", study.Clip(text, 20))
		}
		return d, c
	}
	fail := func(c *study.Error) (ChangeRate, *study.Error) {
		if c.Hint == "" {
			c.Hint = changeRateHint
		}
		return ChangeRate{}, c
	}
	switch {
	case !worded:
		text, c := numberLevel("changes per second", maxChangeRate)(s)
		if c != nil {
			return ChangeRate{}, c
		}
		v, _ := strconv.ParseFloat(text, 64)
		return ChangeRate{RateConstant, []RatePart{{From: v, To: v}}}, nil
	case kind == RateRamp:
		fields := strings.Split(rest, ":")
		if len(fields) != 3 {
			return fail(study.Complain(study.CodeInvalid, "", "%q is not a ramp", study.Clip(s, 60)))
		}
		from, c := rate(fields[0], 0)
		if c != nil {
			return fail(c)
		}
		to, c := rate(fields[1], 0)
		if c != nil {
			return fail(c)
		}
		over, c := length(fields[2])
		if c != nil {
			return fail(c)
		}
		if from+to == 0 {
			return fail(study.Complain(study.CodeInvalid, "", "a ramp from 0 to 0 makes no change"))
		}
		return ChangeRate{RateRamp, []RatePart{{from, to, over}}}, nil
	case kind == RateSteps:
		out := ChangeRate{Kind: RateSteps}
		sum := 0.0
		for item := range strings.SplitSeq(rest, ",") {
			text, time, ok := strings.Cut(strings.TrimSpace(item), ":")
			if !ok {
				return fail(study.Complain(study.CodeInvalid, "", "%q is not a step", study.Clip(item, 40)))
			}
			v, c := rate(text, 0)
			if c != nil {
				return fail(c)
			}
			over, c := length(time)
			if c != nil {
				return fail(c)
			}
			if sum += v; len(out.Parts) == maxRateParts {
				return fail(study.Complain(study.CodeLimit, "", "more than %d steps", maxRateParts))
			}
			out.Parts = append(out.Parts, RatePart{v, v, over})
		}
		if sum == 0 {
			return fail(study.Complain(study.CodeInvalid, "", "every step's rate is 0"))
		}
		return out, nil
	}
	return fail(study.Complain(study.CodeInvalid, "", "%q is not a rate of changes", study.Clip(s, 60)))
}

// String formats the rate as a level.
func (r ChangeRate) String() string {
	plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch r.Kind {
	case RateRamp:
		p := r.Parts[0]
		return strings.Join([]string{RateRamp, plain(p.From), plain(p.To), study.FormatDuration(p.For)}, ":")
	case RateSteps:
		var steps []string
		for _, p := range r.Parts {
			steps = append(steps, plain(p.From)+":"+study.FormatDuration(p.For))
		}
		return RateSteps + ":" + strings.Join(steps, ",")
	}
	return plain(r.Parts[0].From)
}

func changeRateLevel(s string) (string, *study.Error) {
	r, c := parseChangeRate(s)
	if c != nil {
		return "", c
	}
	return r.String(), nil
}

// Highest returns the highest rate per second.
func (r ChangeRate) Highest() float64 {
	out := 0.0
	for _, p := range r.Parts {
		out = max(out, p.From, p.To)
	}
	return out
}

// parts returns the rate's parts, including the rate that continues at the end.
func (r ChangeRate) parts() []RatePart {
	last := r.Parts[len(r.Parts)-1].To
	out := r.Parts
	if r.Kind != RateRamp { // the last step has no end
		out = out[:len(out)-1]
	}
	return append(out[:len(out):len(out)], RatePart{From: last, To: last, For: math.MaxInt64})
}

// Count returns the number of changes in the first seconds of the schedule, as a real number.
func (r ChangeRate) Count(seconds float64) float64 {
	sum := 0.0
	for _, p := range r.parts() {
		long := p.For.Seconds()
		t := min(seconds, long)
		sum += p.From*t + (p.To-p.From)/long*t*t/2
		if seconds -= long; seconds <= 0 {
			break
		}
	}
	return sum
}

// Seconds returns the time by which this many changes have come; infinite if they never do.
func (r ChangeRate) Seconds(count float64) float64 {
	if count <= 0 {
		return 0
	}
	start := 0.0
	for _, p := range r.parts() {
		long := p.For.Seconds()
		slope := (p.To - p.From) / long
		if in := (p.From + p.To) / 2 * long; in < count {
			count, start = count-in, start+long
			continue
		}
		// Solve count = from*t + slope*t*t/2 in the form without cancellation.
		return start + 2*count/(p.From+math.Sqrt(max(0, p.From*p.From+2*slope*count)))
	}
	return math.Inf(1)
}

// burstPattern matches the levels of factor change_arrival.
const burstPattern = `^(uniform|poisson|burst(:[1-9][0-9]*)?)$`

// arrivalLevel parses a level of factor change_arrival.
func arrivalLevel(s string) (string, *study.Error) {
	const hint = "use uniform, poisson, burst, or burst:N for bursts of N changes"
	size, sized := strings.CutPrefix(s, study.ArrivalBurst+":")
	switch {
	case slices.Contains([]string{study.ArrivalUniform, study.ArrivalPoisson, study.ArrivalBurst}, s):
		return s, nil
	case !sized:
		return "", study.Complain(study.CodeInvalid, hint, "%q is not an arrival of changes", study.Clip(s, 40))
	}
	n, c := study.IntegerLevel(1, maxChanges)(size)
	if c != nil {
		return "", study.Complain(study.CodeInvalid, hint, "%s", c.Msg)
	}
	return study.ArrivalBurst + ":" + n, nil
}

// maxChanges is the maximum number of changes per trial.
const maxChanges = 40_000

// Arrival returns how a cell's changes arrive: uniform, poisson or burst, and for burst the number
// that arrive together; 0: all of them.
func (l Levels) Arrival() (kind string, burst int) {
	kind, size, _ := strings.Cut(l.ChangeArrival, ":")
	burst, _ = strconv.Atoi(size)
	return kind, burst
}

// ChangesIn returns the number of changes in a trial of a cell.
func ChangesIn(s *study.Study, cell record.Cell) int {
	c := Of(s)
	switch {
	case c == nil:
		return 0
	case cell[FactorChange] == ChangeTrace:
		return len(c.Trace)
	case c.Changes > 0:
		return c.Changes
	}
	rate, fault := parseChangeRate(cell[FactorChangeRate])
	if fault != nil {
		return 1 // not a plan's cell
	}
	return max(1, int(math.Ceil(rate.Count(c.Duration.Seconds())-1e-9)))
}

// ChangeTime returns the time over which a trial of a cell makes changes: until the next one would
// come. It is negative if some of them never come.
func ChangeTime(s *study.Study, cell record.Cell) time.Duration {
	c := Of(s)
	switch {
	case c == nil:
		return 0
	case cell[FactorChange] == ChangeTrace:
		if len(c.Trace) == 0 {
			return 0
		}
		return c.Trace[len(c.Trace)-1].At
	case cell[FactorChangeArrival] == study.ArrivalBurst:
		return 0
	}
	rate, fault := parseChangeRate(cell[FactorChangeRate])
	if fault != nil {
		return 0
	}
	count := float64(ChangesIn(s, cell))
	if _, burst := (Levels{ChangeArrival: cell[FactorChangeArrival]}).Arrival(); burst > 0 {
		count = float64((ChangesIn(s, cell) - 1) / burst * burst)
	}
	seconds := rate.Seconds(count)
	if seconds > 1e6 {
		if again := rate.Seconds(count - 1); again <= 1e6 { // the last change does come
			return time.Duration(again * float64(time.Second))
		}
		return -1
	}
	return time.Duration(math.Round(seconds*1e6)) * time.Microsecond
}
