package fit

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// Observation is what one trial measured. Times are in seconds; NaN means not measured.
type Observation struct {
	Run, Trial, Cell string
	levels           record.Cell
	on               machines
	For              int // ForAll or another

	Proxies, Namespaces, Replicas, Throttle, ChangesMade int
	Services                                             float64 // at the middle of the window
	Rate                                                 float64 // changes per second
	Cores                                                float64 // available to istiod
	DebounceAfter, DebounceMax                           float64
	Direct                                               bool
	Replay                                               model.Replay

	CPU       float64 // of istiod in the window
	Idle      float64 // cores, before the first change
	Simulator float64 // by type; bytes on the wire, Times is pilot_xds_push_time

	Pushes, Bytes, Times [push.Types]float64 // counts, bytes on the wire, pilot_xds_push_time
	Pairs                [push.Types]float64 // of a change with its own part in the type, and a proxy
	// Generation divides CPU time among types by a profile; nil if there is none.
	Generation     *[push.Types]float64
	Contexts       float64
	ContextTime    float64 // total
	Configuration  float64 // share of the push contexts in which configuration changed
	Turns, Skipped float64 // of proxies that needed something, and of proxies that needed nothing
	Reconnects     float64
	Waited         float64 // mean of pilot_proxy_convergence_time: queue and turn

	Watch, Deliver float64 // means of the stages watch, and wire plus ack
	Memory         float64
	P50, P99       float64 // of convergence
	Unattributed   float64 // share of the machine that programs outside the study used; 0 if unknown
}

// cell identifies the cell among those of all runs.
func (o *Observation) cell() string { return o.Run + "\x00" + o.Cell }

// Uses of an observation.
const (
	ForAll     = iota // everything except what the others are for
	ForSkips          // turns of proxies that need nothing, which nearly all do here
	ForStreams        // new streams: proxies reconnect all the time
)

func purposeOf(o *Observation, l controlplane.Levels) int {
	switch {
	case l.Clients == controlplane.ClientsReconnectStorm:
		return ForStreams
	case o.Skipped > 20*o.Turns:
		return ForSkips
	}
	return ForAll
}

// Observe reads the trials of a run.
func Observe(run record.Run) (all []*Observation, left []Left, err error) {
	if run.Header.Kind != record.KindControlPlane {
		return nil, nil, fmt.Errorf("run %s is of a study of the %s, not of the control plane", run.Header.RunID, run.Header.Kind)
	}
	events := map[string][]*record.Event{}
	for i := range run.Events {
		e := &run.Events[i]
		events[e.Trial] = append(events[e.Trial], e)
	}
	for i := range run.Trials {
		t := &run.Trials[i]
		o, why := observe(run, t, events[t.ID])
		if why.Code != "" {
			left = append(left, Left{t.ID, why})
			continue
		}
		all = append(all, o)
	}
	return all, left, nil
}

// observe reads one trial, or returns why it is unusable.
func observe(run record.Run, t *record.Trial, events []*record.Event) (*Observation, model.Why) {
	if code := unusable(t, events); code != "" {
		return nil, model.Why{Code: code}
	}
	c := t.Control
	known, _ := controlplane.Known(study.ControlPlane.Completed(t.Cell), c.Installed)
	l, err := controlplane.LevelsOf(known)
	if err != nil {
		return nil, model.Why{Code: model.WhyCell, Level: err.Error()}
	}
	if why := unlike(l); why.Code != "" {
		return nil, why
	}
	o := &Observation{Run: run.Header.RunID, Trial: t.ID, Cell: t.Cell.Key(), levels: t.Cell, on: machinesOf(t),
		Proxies: c.Proxies, Namespaces: max(1, l.Namespaces), Replicas: max(1, l.IstiodReplicas), ChangesMade: c.Committed,
		DebounceAfter: l.DebounceAfter.Seconds(), DebounceMax: l.DebounceMax.Seconds(), Direct: !l.EDSDebounce,
		CPU: t.CPU[record.PartControl].TotalS(), Simulator: c.Simulator.TotalS(), Idle: math.NaN(), Memory: memoryOf(t)}
	o.Throttle, _ = strconv.Atoi(known[controlplane.FactorPushThrottle]) // 0 if istiod chooses
	if c.IdleSeconds > 0 {
		o.Idle = c.Idle.TotalS() / c.IdleSeconds
	}
	if t.Others != nil {
		o.Unattributed = t.Others.UnattributedRatio
	}
	o.Cores = coresFor(run.Header.Machine, t, known[controlplane.FactorIstiodCPU])
	o.readChanges(t, events)
	o.Services = float64(l.Services) + float64(l.ServiceEntries) + o.made(events)/2
	o.readCounters(c)
	o.readStages(c)
	o.readConvergence(events)
	if !o.calm() {
		o.Generation = generation(run, t)
	}
	o.For = purposeOf(o, l)
	if o.Turns == 0 && o.For != ForSkips {
		return nil, model.Why{Code: model.WhyNoPushes}
	}
	return o, model.Why{}
}

// coresFor returns how many CPUs istiod could use: what other processes left of the machine, but
// at least half of it, since the kernel shares it among all that want it, and at most its own
// limit. The simulated proxies do not count as other processes: the model includes them.
func coresFor(m record.Machine, t *record.Trial, limit string) float64 {
	cores := float64(m.CPUs)
	if m.Nodes <= 1 {
		if all, ok := t.CPU[record.PartMachine]; ok {
			others := all.TotalS() - t.CPU[record.PartControl].TotalS() - t.Control.Simulator.TotalS()
			cores = math.Max(cores/2, cores-math.Max(0, others/t.Window.Seconds))
		}
	}
	number, milli := strings.CutSuffix(limit, "m")
	if v, err := strconv.ParseFloat(number, 64); err == nil && v > 0 {
		if milli {
			v /= 1000
		}
		cores = math.Min(cores, v)
	}
	return math.Max(cores, 0.1)
}

// kindOf returns an event's kind of change; a change of several objects at once is a separate
// kind.
func kindOf(e *record.Event) string {
	if e.Kind == controlplane.ChangeServiceGatewayVirtualService {
		what, _, _ := strings.Cut(e.Object, "/")
		return strings.ToLower(what)
	}
	return e.Kind
}

func (o *Observation) readChanges(t *record.Trial, events []*record.Event) {
	made := make([]*record.Event, 0, len(events))
	for _, e := range events {
		if e.Error == "" && e.CommittedNS > 0 {
			made = append(made, e)
		}
	}
	sort.SliceStable(made, func(i, j int) bool { return made[i].CommittedNS < made[j].CommittedNS })
	index := map[string]int{}
	configuration := 0
	for _, e := range made {
		name := kindOf(e)
		k, ok := model.KindOf(name)
		if !ok {
			continue
		}
		if _, ok := index[name]; !ok {
			index[name] = len(o.Replay.Kinds)
			o.Replay.Kinds = append(o.Replay.Kinds, name)
		}
		if k.Configuration {
			configuration++
		}
		at := float64(e.CommittedNS-made[0].CommittedNS) / 1e9
		o.Replay.Changes = append(o.Replay.Changes, push.Change{At: at, Kind: index[name], Where: 0.5})
	}
	o.Replay.Window = t.Window.Seconds
	n := len(o.Replay.Changes)
	if n == 0 {
		return
	}
	if last := o.Replay.Changes[n-1].At; last > 0 {
		o.Rate = float64(n-1) / last
	}
	o.Replay.Window = math.Max(o.Replay.Window, o.Replay.Changes[n-1].At)
	o.Configuration = float64(configuration) / float64(n)
}

// made returns the number of Services that the trial's changes created.
func (o *Observation) made(events []*record.Event) float64 {
	n := 0.0
	for _, e := range events {
		if k := kindOf(e); e.Op == "create" && e.Error == "" && (k == controlplane.ChangeService || k == controlplane.ChangeServiceEntry) {
			n++
		}
	}
	return n
}

func (o *Observation) readCounters(c *record.Control) {
	at := func(series string) float64 { return c.Istiod[series] }
	for t := range push.Types {
		o.Pushes[t] = at(`pilot_xds_pushes{type="` + t.String() + `"}`)
		o.Times[t] = at(`pilot_xds_push_time_sum{type="` + t.String() + `"}`)
		o.Bytes[t] = float64(c.Wire[t.String()].Bytes)
		// Both count responses. If they disagree (something was lost or not counted), use bytes
		// per response.
		if n := float64(c.Wire[t.String()].Responses); n > 0 && o.Pushes[t] > 0 {
			o.Bytes[t] *= o.Pushes[t] / n
		}
		for _, change := range o.Replay.Changes {
			k, _ := model.KindOf(o.Replay.Kinds[change.Kind])
			if k.Types.Has(t) && !k.Bare.Has(t) {
				o.Pairs[t] += float64(o.Proxies)
			}
			if k.Asks.Has(t) {
				o.Pairs[t] += float64(o.Proxies)
			}
		}
	}
	o.Contexts, o.ContextTime = at("pilot_pushcontext_init_seconds_count"), at("pilot_pushcontext_init_seconds_sum")
	o.Turns = at("pilot_proxy_convergence_time_count")
	o.Waited = at("pilot_proxy_convergence_time_sum") / o.Turns
	o.Skipped = math.Max(0, at("pilot_proxy_queue_time_count")-o.Turns)
	for _, n := range c.Reconnects {
		o.Reconnects += float64(n)
	}
	if o.Contexts > 0 { // one of several merged changes is enough
		merged := math.Max(1, float64(len(o.Replay.Changes))/o.Contexts)
		o.Configuration = 1 - math.Pow(1-o.Configuration, merged)
	}
}

func (o *Observation) readStages(c *record.Control) {
	mean := func(stage string) float64 {
		i := slices.IndexFunc(c.Stages, func(s record.Stage) bool { return s.Name == stage })
		if i < 0 {
			return math.NaN()
		}
		return math.Max(0, c.Stages[i].MeanUS/1e6)
	}
	o.Watch, o.Deliver = mean(record.StageWatch), mean(record.StageAck)
	if wire := mean(record.StageWire); stat.Finite(wire) {
		o.Deliver += wire
	}
}

// readConvergence ranks pairs that never got a needed change, or never acknowledged it, beyond
// all others: a quantile among them is infinite.
func (o *Observation) readConvergence(events []*record.Event) {
	var all []float64
	lost, first, last := 0, int64(math.MaxInt64), 0.0
	for _, e := range events {
		if e.Error == "" && e.CommittedNS > 0 {
			first = min(first, e.CommittedNS)
		}
	}
	for _, e := range events {
		lost += len(e.Missed)
		for _, us := range e.Seen.AckedUS {
			if us == record.Never {
				lost++
				continue
			}
			all = append(all, float64(us)/1e6)
			last = math.Max(last, float64(e.CommittedNS-first)/1e9+float64(us)/1e6)
		}
	}
	o.Replay.Tail = math.Max(0, o.Replay.Window-last)
	counts := stat.FromSamples(all).WithLost(int64(lost))
	o.P50, o.P99 = counts.Quantile(0.5), counts.Quantile(0.99)
}

// calm reports whether a trial's pushes did not overlap: each ended before the next began, so
// times are those of a push rather than of waiting for CPUs.
func (o *Observation) calm() bool {
	return o.Waited*o.Contexts/float64(o.Replicas)/o.Replay.Window < mostOverlap
}

// mostOverlap is the maximum average number of concurrent pushes in a calm trial.
const mostOverlap = 0.5

// Mesh returns the mesh of a trial, with its changes.
func (o *Observation) Mesh() model.Mesh {
	m := model.Default()
	m.Proxies, m.Services, m.Namespaces = o.Proxies, int(math.Round(o.Services)), o.Namespaces
	m.Rate, m.Replicas, m.Cores, m.Throttle = math.Max(o.Rate, 1e-4), o.Replicas, o.Cores, o.Throttle
	m.DebounceAfter, m.DebounceMax, m.DirectEndpoints = o.DebounceAfter, o.DebounceMax, o.Direct
	m.Beside, m.Replay = true, &o.Replay
	return m
}

// memoryOf returns istiod's memory in a trial; NaN if it was not measured.
func memoryOf(t *record.Trial) float64 {
	m := t.Memory[record.PartControl]
	switch {
	case m.PSSBytes > 0:
		return float64(m.PSSBytes)
	case m.CgroupBytes > 0:
		return float64(m.CgroupBytes)
	}
	return math.NaN()
}

// Left is a trial that was left out.
type Left struct {
	Trial string `json:"trial"`
	model.Why
}

// schedule is the check that changes started as planned. The fit accepts trials that fail it,
// since it replays each change at its commit time.
const schedule = "driver-schedule"

// believed reports whether a fit can use a trial: it is valid, or fails only the schedule check.
func believed(t *record.Trial) bool {
	failed := slices.DeleteFunc(slices.Clone(t.Validity.Checks), func(c record.Check) bool { return c.OK })
	return t.Validity.Valid || len(failed) > 0 && !slices.ContainsFunc(failed, func(c record.Check) bool { return c.Name != schedule })
}

// unusable returns why a trial is unusable regardless of its cell; "" if it is usable.
func unusable(t *record.Trial, events []*record.Event) model.WhyCode {
	c := t.Control
	switch {
	case !believed(t):
		return model.WhyInvalid
	case c == nil || len(c.Istiod) == 0:
		return model.WhyNoMetrics
	case c.Proxies == 0:
		return model.WhyNoProxies
	case c.RealProxies > 0 || c.Gateways > 0 || c.Ztunnels > 0:
		return model.WhyRealProxies
	case !(t.CPU[record.PartControl].TotalS() > 0) || !(t.Window.Seconds > 0):
		return model.WhyNoCPU
	case len(events) == 0:
		return model.WhyNoChanges
	}
	return ""
}

// unlike returns why the pushes of a cell differ from those of the model: scope and clients
// change what a push is.
func unlike(l controlplane.Levels) model.Why {
	switch {
	case l.SidecarScope != controlplane.SidecarScopeNone || l.DiscoverySelectors != "" || l.ExportTo != "*":
		return model.Why{Code: model.WhyScope}
	case l.Clients != controlplane.ClientsGood && l.Clients != controlplane.ClientsReconnectStorm:
		return model.Why{Code: model.WhyClients, Level: l.Clients}
	case l.XDS != controlplane.XDSDelta:
		return model.Why{Code: model.WhyXDS}
	case l.HBONE:
		return model.Why{Code: model.WhyHBONE}
	}
	return model.Why{}
}

// generators matches the functions with which istiod makes each type, GenerateDeltas for
// differences and Generate for the whole (pilot/pkg/xds).
var generators = lazyregexp.New(`^istio\.io/istio/pilot/pkg/xds\.(?:\(\*)?(Cds|Eds|Lds|Rds|Nds)Generator\)?\.Generate`)

var generatorOf = map[string]push.Type{"Cds": push.CDS, "Eds": push.EDS, "Lds": push.LDS, "Rds": push.RDS, "Nds": push.NDS}

// leastGenerated is the minimum time in istiod's generators for a profile to count: 100
// samples of 10 ms, so a type's share is accurate to a tenth.
const leastGenerated = 1e9

// generation returns how istiod's CPU time divides among types, according to profiles of a
// trial's istiods that were taken while its changes were repeated. The shares add up to 1.
// It returns nil if there are no profiles or too few samples. Unlike istiod's timers, a
// profile does not count waiting for CPUs.
func generation(run record.Run, t *record.Trial) *[push.Types]float64 {
	if run.Profile == nil {
		return nil
	}
	var out [push.Types]float64
	all := 0.0
	for _, p := range t.Control.Profiles {
		if p.Kind != "cpu" {
			continue
		}
		for k, v := range generated(run, fmt.Sprintf("profiles/%s-istiod-%d-cpu.pb.gz", t.ID, p.Replica)) {
			out[k] += v
			all += v
		}
	}
	if all < leastGenerated {
		return nil
	}
	for k := range out {
		out[k] /= all
	}
	return &out
}

// generated returns the CPU time of each type's generator in one profile, in nanoseconds,
// or zeros if the profile cannot be read.
func generated(run record.Run, name string) (out [push.Types]float64) {
	file, err := run.Profile(name)
	if err != nil {
		return out
	}
	defer file.Close()
	p, err := profile.ReadPprof(file)
	if err != nil {
		return out
	}
	for _, c := range p.TopCumulative(math.MaxInt) {
		if m := generators.FindStringSubmatch(c.Function); m != nil {
			out[generatorOf[m[1]]] += float64(c.Cumulative)
		}
	}
	return out
}
