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
	"github.com/meshtrial/meshtrial/internal/note"
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

// maxTrace limits the number of recorded changes in a study.
const maxTrace = 10_000

// TraceChange is a recorded change.
type TraceChange struct {
	At     time.Duration // since the start of the window
	Change string        // a level of factor change other than trace and mixed
}

// String formats the change as studies write it.
func (c TraceChange) String() string { return study.FormatDuration(c.At) + " " + c.Change }

func parseTraceChange(s string) (TraceChange, *study.Error) {
	const hint = "write time and kind, such as 1.5s endpoints-scale"
	fields := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
	if len(fields) != 2 {
		return TraceChange{}, study.Complain(study.CodeInvalid, hint, "%q is not a recorded change", study.Clip(s, 60))
	}
	if _, c := study.Number(fields[0]); c == nil { // recorded traces use plain seconds
		fields[0] += "s"
	}
	at, c := study.ParseDuration(fields[0])
	if c != nil {
		return TraceChange{}, c
	}
	f, _ := study.FactorByName(FactorChange)
	if fields[1] == ChangeTrace || fields[1] == ChangeMixed {
		return TraceChange{}, study.Complain(study.CodeInvalid, hint, "%s is not a single change", fields[1])
	}
	if RoutesGateway(fields[1]) {
		return TraceChange{}, study.Complain(study.CodeInvalid, "make it the study's change: "+fields[1], "%s cannot be among recorded changes", fields[1])
	}
	if _, c := f.Parse(fields[1]); c != nil {
		return TraceChange{}, c
	}
	return TraceChange{At: at, Change: fields[1]}, nil
}

// resonant is the distance, as a share of the time between changes, within which chance may decide
// the order of two times.
const resonant = 0.1

// mostFolds is the number of changes debounced together above which one more or less makes no
// difference.
const mostFolds = 10.5

// leastBetween is the time between changes below which chance does not decide whole trials: the API
// server's response times vary as much as the two times may differ, so each of many changes is
// decided on its own, and their mean is similar in every block.
const leastBetween = 0.2 // seconds

// resonances notes cells whose change schedule makes debouncing a lottery. Istiod waits
// debounce_after from the last change, but at most debounce_max from the first (pilot/pkg/xds,
// debounce). If changes are evenly spaced by about debounce_after, milliseconds decide whether a
// change joins the preceding ones. If they all join and debounce_max is a multiple of the spacing,
// milliseconds decide whether the last one does. Trials then differ for no other reason. There is
// one note for each kind and pair of times.
func resonances(p *study.Plan) []note.Note {
	var out []note.Note
	seen := map[string]bool{}
	for _, cell := range p.Cells {
		if n, ok := resonance(p.Study, cell); ok && !seen[n.String()] {
			seen[n.String()] = true
			out = append(out, n.At("at "+p.Label(cell)))
		}
	}
	return out
}

var (
	noteAfterResonates = note.Define("debounce_after_resonates", "debounce_after, %s, is close to the time between changes, %s: chance decides which changes are pushed together, so blocks differ")
	noteMaxResonates   = note.Define("debounce_max_resonates", "debounce_max, %s, is close to a multiple of the time between changes, %s, which are all debounced together: chance decides whether the last is pushed with the others, so blocks differ")
)

func resonance(s *study.Study, cell record.Cell) (n note.Note, ok bool) {
	if cell[FactorChange] == ChangeTrace {
		return n, false
	}
	l, err := LevelsOf(cell)
	rate, fault := parseChangeRate(cell[FactorChangeRate])
	if err != nil || fault != nil || rate.Kind != arrival.Constant || ChangesIn(s, cell) < 2 {
		return n, false
	}
	between := 1 / rate.RateRPS // seconds
	switch kind, burst := l.Arrival(); {
	case kind == study.ArrivalPoisson, kind == study.ArrivalBurst && burst == 0:
		return n, false
	case kind == study.ArrivalBurst:
		between *= float64(burst)
	}
	if between < leastBetween {
		return n, false
	}
	after, most := l.DebounceAfter.Seconds(), l.DebounceMax.Seconds()
	each := time.Duration(between * float64(time.Second)).Round(time.Millisecond)
	folds := most / between
	switch {
	case math.Abs(after-between) <= resonant*between:
		return noteAfterResonates.Of(l.DebounceAfter, each), true
	case after > between && folds >= 1 && folds < mostFolds && math.Abs(folds-math.Round(folds)) <= resonant:
		return noteMaxResonates.Of(l.DebounceMax, each), true
	}
	return n, false
}
