package analysistest

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/queueing"
	"github.com/meshtrial/meshtrial/study"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Machine is a simulated machine, described by what disturbs the trials on it.
// Shares are fractions of a trial's level; the zero value disturbs nothing.
type Machine struct {
	Name  string
	Trial float64 // standard deviation of a trial's own noise

	Pod float64 // standard deviation of a deployment's individual level

	Ramp   float64 // how much slower the last trial is than the first
	Within float64 // how much slower the last trial of a block is than its first

	Together float64 // correlation of a trial with the next, whatever its cell
	Swing    float64 // standard deviation of the correlated part

	Outlier float64 // slowdown of one trial in twenty
	Burst   float64 // slowdown while a neighbour works, a tenth of the time and for two trials in a row

	// Utilisation is the utilisation of a server with a queue; 0 means a server
	// that answers each request independently in lognormal time.
	Utilisation float64
}

// Properties of simulated trials on a machine without disturbances.
const (
	MiddleLatency = 200.0     // microseconds
	LatencySpread = 0.3       // standard deviation of the logarithm of a request's latency
	MiddleMemory  = 40e6      // bytes of each part
	MiddleCPU     = 100.0     // microseconds of each part per request
	outliers      = 0.05      // of trials
	bursts        = 0.1       // of the time
	burstTrials   = 2.0       // in a row, on average
	longest       = 1e10      // nanoseconds
	finest        = 1000      // nanoseconds
	settle        = 300       // requests until a queue reaches its steady state
	gap           = time.Hour // between simulated trials, for code that looks at their times
)

// A Lab makes the trials of a machine, one after the other.
type Lab struct {
	Machine
	shared   []float64 // see Machine.Run
	r        *rand.Rand
	together float64 // correlated part, in standard deviations
	burst    bool
	pods     map[string]float64
}

// Begin returns the machine in its random state at a run's start.
func (m Machine) Begin(r *rand.Rand) *Lab {
	return &Lab{Machine: m, r: r, together: r.NormFloat64(), burst: r.Float64() < bursts, pods: map[string]float64{}}
}

// level returns the slowdown of the machine for the next trial, 1 if nothing
// disturbs it: at a fraction of the run, at a place from -1/2 to 1/2 in its block,
// with given pods.
func (l *Lab) level(at, place float64, pods string) float64 {
	if _, known := l.pods[pods]; !known {
		l.pods[pods] = l.Pod * l.r.NormFloat64()
	}
	l.together = l.Together*l.together + math.Sqrt(1-l.Together*l.Together)*l.r.NormFloat64()
	change := 1 / burstTrials
	if !l.burst {
		change = bursts / (1 - bursts) / burstTrials
	}
	l.burst = l.burst != (l.r.Float64() < change)
	level := math.Exp(l.Swing*l.together) * (1 + l.Ramp*(at-0.5)) * (1 + l.Within*place)
	if l.burst {
		level *= 1 + l.Burst
	}
	l.shared = append(l.shared, level)
	level *= math.Exp(l.pods[pods])
	if l.r.Float64() < outliers && l.Outlier > 0 {
		level *= l.Outlier
	}
	return level
}

// noise returns the trial's own noise for one of its figures.
func (l *Lab) noise() float64 { return math.Exp(l.Trial * l.r.NormFloat64()) }

// Latency draws the latencies of n requests of a trial, in nanoseconds.
func (l *Lab) Latency(n int, level float64) []float64 {
	out := make([]float64, n)
	if l.Utilisation == 0 {
		for i := range out {
			out[i] = level * 1000 * MiddleLatency * math.Exp(LatencySpread*l.r.NormFloat64())
		}
		return out
	}
	arrivals, services := make([]float64, n+settle), make([]float64, n+settle)
	at := 0.0
	for i := range arrivals {
		at += 1000 * MiddleLatency / l.Utilisation * l.r.ExpFloat64()
		arrivals[i] = at
		services[i] = level * 1000 * MiddleLatency / 3 * (l.r.ExpFloat64() + l.r.ExpFloat64() + l.r.ExpFloat64())
	}
	return queueing.Sojourns(arrivals, services, 1)[settle:]
}

// Run simulates a plan for some blocks. effect returns the slowdown of a cell, and
// redeploy is the number of blocks that a set of pods serves, 0 for all. shared
// receives the machine's level at the time of each trial, whatever its cell.
func (m Machine) Run(plan *study.Plan, blocks, requests, redeploy int, r *rand.Rand, effect func(record.Cell) float64) (run record.Run, shared []float64) {
	lab, size := m.Begin(r), plan.BlockSize()
	run = MadeUp(plan, "simulated", blocks, func(run *record.Run, trial *record.Trial) {
		trial.Deployment = 1
		if redeploy > 0 {
			trial.Deployment = 1 + trial.Block/redeploy
		}
		done := len(run.Trials)
		at := Began.Add(time.Duration(done) * gap)
		trial.Started, trial.Ended, trial.Window = at, at.Add(3*time.Second), record.Window{Start: at, Seconds: 1, Intervals: 8}
		place := (float64(trial.Order)+0.5)/float64(size) - 0.5
		level := lab.level((float64(done)+0.5)/float64(blocks*size), place, strconv.Itoa(trial.Deployment)+trial.Cell.Key()+strconv.Itoa(trial.Repeat))
		run.Hist[trial.ID] = lab.fill(trial, requests, level*effect(trial.Cell))
	})
	return run, lab.shared
}

// Truth returns the q-quantile, over the whole run and in any number of trials and
// pods, of a figure in a cell without effect, given the machine's levels. The
// logarithm of the figure is normal, with that of middle as its mean and the given
// spread within a trial.
func (m Machine) Truth(shared []float64, middle, spread, q float64) float64 {
	spread = math.Sqrt(spread*spread + m.Trial*m.Trial + m.Pod*m.Pod)
	below := func(x float64) float64 {
		sum := 0.0
		for _, level := range shared {
			share := distuv.UnitNormal.CDF(math.Log(x/level) / spread)
			if m.Outlier > 0 {
				share += outliers * (distuv.UnitNormal.CDF(math.Log(x/level/m.Outlier)/spread) - share)
			}
			sum += share
		}
		return sum / float64(len(shared))
	}
	low, high := 0.1, 100.0
	for range 40 {
		if mid := math.Sqrt(low * high); below(mid) < q {
			low = mid
		} else {
			high = mid
		}
	}
	return middle * low
}

func (l *Lab) fill(trial *record.Trial, requests int, level float64) record.TrialHist {
	hist := hdrhistogram.New(finest, longest, 3)
	for _, ns := range l.Latency(requests, level*l.noise()) {
		if err := hist.RecordValue(int64(math.Min(ns, longest))); err != nil {
			panic(err)
		}
	}
	n := int64(requests)
	trial.Load = &record.Load{Scheduled: n, Completed: n, Within: record.Within{Answered: n}, AchievedRPS: float64(n)}
	parts := []string{record.PartGenerator, record.PartWorker, record.PartMachine}
	if study.HasClientProxy(trial.Cell) {
		parts = append(parts, record.PartClientProxy)
	}
	if study.HasServerProxy(trial.Cell) {
		parts = append(parts, record.PartServerProxy)
	}
	cpu, memory := level*l.noise(), level*l.noise()
	for _, part := range parts {
		total := MiddleCPU * 1e-6 * float64(n) * cpu
		trial.CPU[part] = record.CPU{UserS: 0.6 * total, SystemS: 0.4 * total}
		if part != record.PartMachine {
			trial.Memory[part] = record.Memory{PSSBytes: int64(MiddleMemory * memory)}
		}
	}
	return record.TrialHist{Intended: hist, Send: hist}
}
