package study

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// ChangeRate is how many changes per second come, as time goes on: each part
// goes evenly from one rate to another, and the last one's end stays.
type ChangeRate struct {
	Kind  string // RateConstant, RateRamp or RateSteps
	Parts []RatePart
}

// RatePart is a stretch of time with its rates at both ends, a second.
type RatePart struct {
	From, To float64
	For      time.Duration
}

// Kinds of rates of change; the words of levels other than plain numbers.
const (
	RateConstant = "constant"
	RateRamp     = "ramp"
	RateSteps    = "steps"
)

// Bounds of rates of change.
const (
	maxChangeRate = 1000
	maxRateParts  = 100
	maxRateTime   = time.Hour
)

// changeRatePattern is that of the levels of factor change_rate.
const changeRatePattern = `^([0-9]+(\.[0-9]+)?|ramp:[0-9.]+:[0-9.]+:[^:,]+|steps:[0-9.]+:[^:,]+(,[0-9.]+:[^:,]+)*)$`

const changeRateHint = "changes per second as 0.4, ramp:FROM:TO:TIME as ramp:1:20:30s, or steps:RATE:TIME,RATE:TIME as steps:1:10s,8:5s"

// parseChangeRate reads a level of factor change_rate. Ramps and steps are as
// the load generator's flags --ramp and --steps have them.
func parseChangeRate(s string) (ChangeRate, *Error) {
	kind, rest, worded := strings.Cut(s, ":")
	rate := func(text string, least float64) (float64, *Error) {
		v, c := Number(text)
		if c == nil && (v < least || v > maxChangeRate) {
			c = Complain(CodeRange, fmt.Sprintf("at most %d changes per second", maxChangeRate), "rate %s is out of range", Clip(text, 20))
		}
		return v, c
	}
	length := func(text string) (time.Duration, *Error) {
		d, c := ParseDuration(text)
		if c == nil && (d <= 0 || d > maxRateTime) {
			c = Complain(CodeRange, "from above 0 to 1h", "time %s is out of range", Clip(text, 20))
		}
		return d, c
	}
	fail := func(c *Error) (ChangeRate, *Error) {
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
			return fail(Complain(CodeInvalid, "", "%q is no ramp", Clip(s, 60)))
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
			return fail(Complain(CodeInvalid, "", "a ramp from 0 to 0 makes no change"))
		}
		return ChangeRate{RateRamp, []RatePart{{from, to, over}}}, nil
	case kind == RateSteps:
		out := ChangeRate{Kind: RateSteps}
		sum := 0.0
		for item := range strings.SplitSeq(rest, ",") {
			text, time, ok := strings.Cut(strings.TrimSpace(item), ":")
			if !ok {
				return fail(Complain(CodeInvalid, "", "%q is no step", Clip(item, 40)))
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
				return fail(Complain(CodeLimit, "", "more than %d steps", maxRateParts))
			}
			out.Parts = append(out.Parts, RatePart{v, v, over})
		}
		if sum == 0 {
			return fail(Complain(CodeInvalid, "", "every step's rate is 0"))
		}
		return out, nil
	}
	return fail(Complain(CodeInvalid, "", "%q is no rate of changes", Clip(s, 60)))
}

// String writes the rate as a level.
func (r ChangeRate) String() string {
	plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch r.Kind {
	case RateRamp:
		p := r.Parts[0]
		return strings.Join([]string{RateRamp, plain(p.From), plain(p.To), FormatDuration(p.For)}, ":")
	case RateSteps:
		var steps []string
		for _, p := range r.Parts {
			steps = append(steps, plain(p.From)+":"+FormatDuration(p.For))
		}
		return RateSteps + ":" + strings.Join(steps, ",")
	}
	return plain(r.Parts[0].From)
}

func changeRateLevel(s string) (string, *Error) {
	r, c := parseChangeRate(s)
	if c != nil {
		return "", c
	}
	return r.String(), nil
}

// Highest is the highest rate, a second.
func (r ChangeRate) Highest() float64 {
	out := 0.0
	for _, p := range r.Parts {
		out = max(out, p.From, p.To)
	}
	return out
}

// parts are the rate's parts with the rate that stays at the end.
func (r ChangeRate) parts() []RatePart {
	last := r.Parts[len(r.Parts)-1].To
	out := r.Parts
	if r.Kind != RateRamp { // the last step's time does not end it
		out = out[:len(out)-1]
	}
	return append(out[:len(out):len(out)], RatePart{From: last, To: last, For: math.MaxInt64})
}

// Count is how many changes there are in the first seconds of the schedule,
// as a real number.
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

// Seconds is when so many changes have come; infinite if they never do.
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
		// count = from*t + slope*t*t/2, in the form that does not cancel.
		return start + 2*count/(p.From+math.Sqrt(max(0, p.From*p.From+2*slope*count)))
	}
	return math.Inf(1)
}

// burstPattern is that of the levels of factor change_arrival.
const burstPattern = `^(uniform|poisson|burst(:[1-9][0-9]*)?)$`

// arrivalLevel reads a level of factor change_arrival.
func arrivalLevel(s string) (string, *Error) {
	const hint = "uniform, poisson, burst, or burst:N for bursts of N changes"
	size, sized := strings.CutPrefix(s, ArrivalBurst+":")
	switch {
	case has([]string{ArrivalUniform, ArrivalPoisson, ArrivalBurst}, s):
		return s, nil
	case !sized:
		return "", Complain(CodeInvalid, hint, "%q is no arrival of changes", Clip(s, 40))
	}
	n, c := IntegerLevel(1, maxChanges)(size)
	if c != nil {
		return "", Complain(CodeInvalid, hint, "%s", c.Msg)
	}
	return ArrivalBurst + ":" + n, nil
}

// maxChanges is how many changes per trial may make.
const maxChanges = 40_000

// Arrival is how a cell's changes come: uniform, poisson or burst, and for
// the last how many come together; 0: all of them.
func (l ControlLevels) Arrival() (kind string, burst int) {
	kind, size, _ := strings.Cut(l.ChangeArrival, ":")
	burst, _ = strconv.Atoi(size)
	return kind, burst
}

// ChangesIn returns how many changes a trial of a cell makes.
func (s *Study) ChangesIn(cell record.Cell) int {
	c := s.Control
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
		return 1 // a cell that is not of a plan
	}
	return max(1, int(math.Ceil(rate.Count(c.Duration.Seconds())-1e-9)))
}

// ChangeTime returns how long a trial of a cell makes changes: until the next
// one would come. Negative: not all of them ever come.
func (s *Study) ChangeTime(cell record.Cell) time.Duration {
	c := s.Control
	switch {
	case c == nil:
		return 0
	case cell[FactorChange] == ChangeTrace:
		if len(c.Trace) == 0 {
			return 0
		}
		return c.Trace[len(c.Trace)-1].At
	case cell[FactorChangeArrival] == ArrivalBurst:
		return 0
	}
	rate, fault := parseChangeRate(cell[FactorChangeRate])
	if fault != nil {
		return 0
	}
	count := float64(s.ChangesIn(cell))
	if _, burst := (ControlLevels{ChangeArrival: cell[FactorChangeArrival]}).Arrival(); burst > 0 {
		count = float64((s.ChangesIn(cell) - 1) / burst * burst)
	}
	seconds := rate.Seconds(count)
	if seconds > 1e6 {
		if again := rate.Seconds(count - 1); again <= 1e6 { // the last one comes
			return time.Duration(again * float64(time.Second))
		}
		return -1
	}
	return time.Duration(math.Round(seconds*1e6)) * time.Microsecond
}
