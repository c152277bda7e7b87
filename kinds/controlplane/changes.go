package controlplane

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Limits of change rates.
const (
	maxChangeRate = 1000
	maxRateSteps  = 100
	maxRateTime   = time.Hour
)

// changeRatePattern matches the levels of factor change_rate.
const changeRatePattern = `^([0-9]+(\.[0-9]+)?|ramp:[0-9.]+:[0-9.]+:[^:,]+|steps:[0-9.]+:[^:,]+(,[0-9.]+:[^:,]+)*)$`

const changeRateHint = "use changes per second (0.4), ramp:FROM:TO:TIME (ramp:1:20:30s) or steps:RATE:TIME,RATE:TIME (steps:1:10s,8:5s)"

// parseChangeRate parses a level of factor change_rate. Ramps and steps have the format of the load
// generator's flags --ramp and --steps.
func parseChangeRate(s string) (shape arrival.Shape, failed *study.Error) {
	fail := func(c *study.Error) { failed = cmp.Or(failed, c) }
	rate := func(text string) float64 {
		v, c := study.Number(text)
		if c == nil && v > maxChangeRate {
			c = study.Complain(study.CodeRange, fmt.Sprintf("use at most %d changes per second", maxChangeRate), "rate %s is out of range", study.Clip(text, 20))
		}
		fail(c)
		return v
	}
	seconds := func(text string) float64 {
		d, c := study.ParseDuration(text)
		if c == nil && (d <= 0 || d > maxRateTime) {
			c = study.Complain(study.CodeRange, "from above 0 to 1h", "time %s is out of range", study.Clip(text, 20))
		}
		fail(c)
		return d.Seconds()
	}
	kind, rest, worded := strings.Cut(s, ":")
	fields := strings.Split(rest, ":")
	switch {
	case !worded:
		text, c := numberLevel("changes per second", maxChangeRate)(s)
		fail(c)
		v, _ := strconv.ParseFloat(text, 64)
		shape = arrival.Shape{Kind: arrival.Constant, RateRPS: v}
	case kind == arrival.Ramp && len(fields) == 3:
		shape = arrival.Shape{Kind: kind, FromRPS: rate(fields[0]), ToRPS: rate(fields[1]), OverS: seconds(fields[2])}
	case kind == arrival.Steps:
		shape.Kind = kind
		for item := range strings.SplitSeq(rest, ",") {
			text, long, _ := strings.Cut(strings.TrimSpace(item), ":")
			shape.Steps = append(shape.Steps, arrival.Step{RateRPS: rate(text), DurationS: seconds(long)})
		}
		if len(shape.Steps) > maxRateSteps {
			fail(study.Complain(study.CodeLimit, "", "more than %d steps", maxRateSteps))
		}
	default:
		fail(study.Complain(study.CodeInvalid, "", "%q is not a rate of changes", study.Clip(s, 60)))
	}
	if failed == nil && highestRate(shape) == 0 {
		fail(study.Complain(study.CodeInvalid, "", "a rate of 0 throughout makes no change"))
	}
	if failed != nil && failed.Hint == "" {
		failed.Hint = changeRateHint
	}
	return shape, failed
}

// changeRateLevel parses a level and formats it in the same way for all spellings.
func changeRateLevel(s string) (string, *study.Error) {
	shape, c := parseChangeRate(s)
	if c != nil {
		return "", c
	}
	plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	step := func(rate, seconds float64) string {
		return plain(rate) + ":" + study.FormatDuration(time.Duration(math.Round(seconds*1e9)))
	}
	switch shape.Kind {
	case arrival.Ramp:
		return arrival.Ramp + ":" + plain(shape.FromRPS) + ":" + step(shape.ToRPS, shape.OverS), nil
	case arrival.Steps:
		var steps []string
		for _, one := range shape.Steps {
			steps = append(steps, step(one.RateRPS, one.DurationS))
		}
		return arrival.Steps + ":" + strings.Join(steps, ","), nil
	}
	return plain(shape.RateRPS), nil
}

// highestRate returns the highest rate of a shape, per second.
func highestRate(s arrival.Shape) float64 {
	out := max(s.RateRPS, s.FromRPS, s.ToRPS)
	for _, step := range s.Steps {
		out = max(out, step.RateRPS)
	}
	return out
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
	return max(1, int(math.Ceil(rate.Expected(c.Duration.Seconds())-1e-9)))
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
	seconds := rate.Reaching(count)
	if seconds > 1e6 {
		if again := rate.Reaching(count - 1); again <= 1e6 { // the last change does come
			return time.Duration(again * float64(time.Second))
		}
		return -1
	}
	return time.Duration(math.Round(seconds*1e6)) * time.Microsecond
}
