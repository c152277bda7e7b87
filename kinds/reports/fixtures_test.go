package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// TestFixturesOfThePage: the tests of the page read documents that this program made from synthetic
// runs, by the same analysis as of any run.
func TestFixturesOfThePage(t *testing.T) {
	for name, document := range map[string]any{
		"data-plane":    pageOf(t, dataFindings(t)),
		"bill":          pageOf(t, reporttest.Bill(t)),
		"hops":          pageOf(t, hopsFindings(t)),
		"control-plane": pageOf(t, scoped(t)),
		"phantom":       pageOf(t, reporttest.Phantom(t)),
		"resilience":    pageOf(t, reporttest.Inconclusive(t)),
		"profile":       profilePage(t),
		"empty":         pageOf(t, record.Findings{Kind: record.KindDataPlane}),
	} {
		golden.File(t, filepath.Join("..", "..", "ui", "web", "test", "fixtures", name+".json"), sixDigits(t, document))
	}
}

// sixDigits encodes a document as JSON with six digits of every fraction, which are the same on
// every kind of CPU.
func sixDigits(t *testing.T, document any) []byte {
	t.Helper()
	data, err := json.Marshal(document)
	must.OK(t, err)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	must.OK(t, decoder.Decode(&tree))
	var round func(any) any
	round = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key := range v {
				v[key] = round(v[key])
			}
		case []any:
			for i := range v {
				v[i] = round(v[i])
			}
		case json.Number:
			if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".e") {
				return json.Number(strconv.FormatFloat(f, 'g', 6, 64))
			}
		}
		return v
	}
	data, err = json.Marshal(round(tree))
	must.OK(t, err)
	return append(data, '\n')
}

// sendRequests gives a trial 2,000 requests with a median latency, and each proxy CPU for them, all
// in microseconds.
func sendRequests(t *testing.T, run *record.Run, trial *record.Trial, r *rand.Rand, median, cpu float64) {
	t.Helper()
	trial.Load = &record.Load{Rate: 1000, Scheduled: 2000, Completed: 2000, Within: record.Within{Answered: 2000}, AchievedRPS: 1000, Lag: record.LatencyAt(0.9, 20, 0.99, 20, 0.999, 20)}
	trial.CPU, trial.Memory = map[string]record.CPU{}, map[string]record.Memory{}
	parts := map[string]float64{record.PartGenerator: 26, record.PartWorker: 25, record.PartMachine: 90}
	if study.HasClientProxy(trial.Cell) {
		parts[record.PartClientProxy] = cpu
		parts[record.PartMachine] += cpu
	}
	if study.HasServerProxy(trial.Cell) {
		parts[record.PartServerProxy] = 0.9 * cpu
		parts[record.PartMachine] += 0.9 * cpu
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		seconds := parts[part] * 2000e-6 * math.Exp(0.004*r.NormFloat64())
		trial.CPU[part] = record.CPU{UserS: 0.7 * seconds, SystemS: 0.3 * seconds}
		if part != record.PartMachine {
			trial.Memory[part] = record.Memory{PSSBytes: int64(45e6 + 2e5*r.NormFloat64())}
		}
	}
	hist := hdrhistogram.New(1, 60_000_000_000, 3)
	level := median * math.Exp(0.01*r.NormFloat64())
	for range 400 {
		must.OK(t, hist.RecordValue(int64(1000*level*math.Exp(0.3*r.NormFloat64()))))
	}
	run.Hist[trial.ID] = record.TrialHist{Intended: hist, Send: hist}
}

const dataText = `
name: small-quick
question: What do Istio's sidecars cost?
settings: {rate: 1000, concurrency: 2}
factors: {sidecars: [none, server, both]}
baseline: {sidecars: none}
blocks: {min: 4, max: 4}
stop: none
measures: [latency, cpu, memory, threads, profile]
money: {rps: 1000000, core_month: 40}
published:
- {source: Istio 1.2 (2019), claim: both sidecars, finding: latency_p50_overhead, cell: {sidecars: both}, figure: 3, unit: ms}
assert:
- finding("latency_p50_overhead", {"sidecars":"both"}).high < 1000.0
- finding("latency_p50_overhead", {"sidecars":"both"}).high < 10.0
`

// dataFindings returns findings of a data-plane run with threads, profiles and one invalid trial.
// The server's sidecar adds nothing to the latency.
func dataFindings(t *testing.T) record.Findings {
	t.Helper()
	profiles := map[string][]byte{}
	run := reporttest.MadeUp(analysistest.PlanOf(t, dataText, 3), 4, func(run *record.Run, trial *record.Trial, r *rand.Rand) {
		both := trial.Cell[study.FactorSidecars] == study.SidecarsBoth
		median := 100.0
		if both {
			median = 500
		}
		sendRequests(t, run, trial, r, median, 105)
		trial.Pressure = &record.Pressure{CPUSomeRatio: 0.05, StealRatio: 0.01, BusyRatio: 0.31}
		trial.Connections = map[string]record.Connections{record.PartGenerator: {Established: 17, Retransmitted: 1}}
		trial.Threads = map[string]record.Threads{record.PartWorker: {Seconds: 2, CPUS: 0.05, Threads: []record.Thread{{Process: "meshtrial", PID: 9, TID: 9, Name: "meshtrial", CPU: record.CPU{UserS: 0.05}}}}}
		if both {
			trial.Threads[record.PartClientProxy] = fullWorkers()
			trial.Profiles = []record.Profiled{{Part: record.PartClientProxy, File: trial.ID + ".pb.gz", Seconds: 2}}
			profiles[trial.ID+".pb.gz"] = pprofOf(t, stacks(0))
		}
		if both && trial.Block == 1 {
			trial.Validity = record.Validity{Checks: []record.Check{{Name: "schedule_lag", Detail: "the generator's own lag p99 was 412 us"}}}
		}
	})
	run.Profile = func(file string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(profiles[file])), nil }
	return reporttest.Analysed(t, run)
}

// fullWorkers returns threads of a proxy whose two workers are saturated.
func fullWorkers() record.Threads {
	accepted := []int64{10, 6}
	th := record.Threads{Seconds: 2, CPUS: 3.81}
	for i := range accepted {
		th.Threads = append(th.Threads, record.Thread{Process: "envoy", PID: 7, TID: 8 + i, Name: fmt.Sprintf("wrk:worker_%d", i),
			CPU: record.CPU{UserS: 1.2, SystemS: 0.7}, WaitS: 0.08, Involuntary: 60, Voluntary: 1000, Accepted: &accepted[i]})
	}
	th.Threads = append(th.Threads, record.Thread{Process: "envoy", PID: 7, TID: 7, Name: "envoy", CPU: record.CPU{UserS: 0.01}})
	return th
}

const hopsText = `
name: small-hops
question: What is a request's way made of?
settings: {rate: 1000}
hops: {}
blocks: {min: 4, max: 4}
stop: none
measures: [latency, cpu]
`

// hopsFindings returns findings of a world in which each proxy adds 100 µs and TLS 30. The cell
// with TLS is invalid, so TLS has no figure.
func hopsFindings(t *testing.T) record.Findings {
	t.Helper()
	return reporttest.Analysed(t, reporttest.MadeUp(analysistest.PlanOf(t, hopsText, 3), 4, func(run *record.Run, trial *record.Trial, r *rand.Rand) {
		median := 150.0
		if study.HasClientProxy(trial.Cell) {
			median += 100
		}
		if study.HasServerProxy(trial.Cell) {
			median += 100
		}
		sendRequests(t, run, trial, r, median, 80)
		trial.Validity.Valid = trial.Cell[study.FactorVariant] != dataplane.HopTLS
	}))
}

// scoped returns a run of studies/sidecar-scope with the holdings of single proxies, new proxies
// and real ones, and istiod's own figure in the first bucket of its histogram: in every trial
// without a Sidecar, in some of those with one.
func scoped(t *testing.T) record.Findings {
	t.Helper()
	return reporttest.ControlPlane(t, "sidecar-scope", 2, func(trial *record.Trial, events []record.Event) {
		c := trial.Control
		c.RealProxies = 1
		for i := range events {
			seen := &events[i].Seen
			if len(seen.AckedUS) == 1 { // only in the real proxy's namespace
				continue
			}
			seen.AppliedUS = []int64{seen.AckedUS[0] + 10_000}
			for range seen.AckedUS[1:] {
				seen.AppliedUS = append(seen.AppliedUS, record.Never)
			}
		}
		if trial.Cell[study.FactorVariant] != "none" && trial.Block == 0 {
			c.Istiod[`pilot_proxy_convergence_time_bucket{le="0.1"}`] = 1
		}
		c.Missing = []string{"pilot_debounce_time"}
		c.ScopeConfig = map[string]int64{"cds": 4_000}
		c.Join = &record.Join{Proxy: "new.test-1", Namespace: "test-1", TotalUS: 9_400, Types: map[string]record.JoinType{"cds": {Responses: 1, Resources: 35, Bytes: 117_000}}}
		held := record.Holding{Proxy: "a.test-1", Namespace: "test-1", Type: "router", Proxies: 2, DumpBytes: 10_000, WireBytes: 2_500, Resources: 20,
			Others: record.OwnerBytes{DumpBytes: 200, WireBytes: 50, Resources: 2}, OtherOwners: 1}
		for i, bytes := range []int64{4_000, 3_000, 2_000, 500, 300} {
			held.Owners = append(held.Owners, record.OwnerBytes{Owner: fmt.Sprintf("Service test-1/s-%d", i), DumpBytes: bytes, WireBytes: bytes / 4, Resources: 2})
		}
		c.Holdings = []record.Holding{held}
	})
}

// stacks returns perf script's output for a program with two threads: main calls a and b, and a the
// kernel; a library has no names. before is how much more b cost, and a function that no longer
// exists.
func stacks(before int) string {
	var out strings.Builder
	sample := func(thread string, second, weight int, frames ...string) {
		if weight == 0 {
			return
		}
		fmt.Fprintf(&out, "%s 1/2 %d.000000: %d cpu-clock: \n", thread, second, weight)
		for _, frame := range frames {
			fmt.Fprintf(&out, "\t%s\n", frame)
		}
		out.WriteString("\n")
	}
	const mainFrame, a, b, lib = "55a1 main+0x1 (/bin/x)", "55b1 a+0x1 (/bin/x)", "55c1 b+0x1 (/bin/x)", "7f01 [unknown] (/lib/libx.so)"
	for second := 1; second <= 40; second++ {
		wobble := second % 3
		sample("wrk:worker_0", second, 10, a, mainFrame)
		sample("wrk:worker_0", second, 40+wobble, "ffffffff81000001 tcp_sendmsg+0x1 ([kernel.kallsyms])", a, mainFrame)
		sample("main", second, 30+before, b, mainFrame)
		sample("main", second, 20-wobble, lib)
		sample("main", second, before, "55d1 gone+0x1 (/bin/x)", mainFrame)
	}
	return out.String()
}

func perfScript(t *testing.T, text string) *profile.Profile {
	t.Helper()
	p, err := profile.ReadPerfScript(strings.NewReader(text))
	must.OK(t, err)
	return p
}

func pprofOf(t *testing.T, script string) []byte {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, perfScript(t, script).WritePprof(&b))
	return b.Bytes()
}

// profilePage returns the page of one profile compared with an older one, and with the
// configuration's filters.
func profilePage(t *testing.T) report.Page {
	t.Helper()
	now, before := []*profile.Profile{perfScript(t, stacks(0))}, []*profile.Profile{perfScript(t, stacks(20))}
	summary, view := profile.Summarise("a proxy", now, []profile.ConfigFilter{{Group: "HTTP filter", Name: "fault", Centre: "envoy.filters.http.fault", Places: 2}}, 10)
	d, err := profile.Compare(before, now)
	must.OK(t, err)
	summary.Against = &d
	view.AddDiff(d, "yesterday")
	page, err := report.ProfilePage(summary, view)
	must.OK(t, err)
	return page
}

const sizedText = `
name: small-sized
question: Which takes less, sidecars or ambient?
settings: {concurrency: 2}
factors: {sidecars: [none, both, ambient], rate: [250, 1000]}
baseline: {sidecars: none}
blocks: {min: 4, max: 4}
stop: none
measures: [cpu, memory]
sizing: {pods: 200, nodes: 40, rps: 4000, l7: 20%}
`

// sizedFindings returns findings of a synthetic run with sidecars of 5 mCPU and 150 us per request
// each, a node proxy of 20 mCPU and 120 us per request, and a node agent of 1 mCPU.
func sizedFindings(t *testing.T) record.Findings {
	t.Helper()
	return reporttest.Analysed(t, reporttest.MadeUp(analysistest.PlanOf(t, sizedText, 3), 4, func(run *record.Run, trial *record.Trial, r *rand.Rand) {
		rps := report.Number(trial.Cell[study.FactorRate])
		n := int64(rps * trial.Window.Seconds)
		trial.Load = &record.Load{Rate: rate.Rate(rps), Scheduled: n, Completed: n, Within: record.Within{Answered: n}, AchievedRPS: rps, Lag: record.LatencyAt(0.9, 20, 0.99, 20, 0.999, 20)}
		trial.CPU, trial.Memory, trial.Way = map[string]record.CPU{}, map[string]record.Memory{}, study.WayOf(trial.Cell).OnOneNode()
		machine := 0.05 + 90e-6*rps
		put := func(part string, cores float64) {
			seconds := cores * trial.Window.Seconds * math.Exp(0.01*r.NormFloat64())
			trial.CPU[part] = record.CPU{UserS: 0.7 * seconds, SystemS: 0.3 * seconds}
		}
		for _, part := range trial.Way.Parts() {
			cores, bytes := 0.005+150e-6*rps, 60e6
			if part == record.PartNode {
				cores, bytes = 0.02+120e-6*rps, 15e6+1000*rps
			}
			put(part, cores)
			trial.Memory[part] = record.Memory{PSSBytes: int64(bytes + 2e5*r.NormFloat64())}
			machine += 1.1 * cores
		}
		put(record.PartMachine, machine)
		trial.NodeAgents, trial.CPU[record.PartNodeAgent] = 1, record.CPU{UserS: 0.001 * trial.Window.Seconds}
		trial.Memory[record.PartNodeAgent] = record.Memory{PSSBytes: 78e6}
	}))
}

// A heatmap counts every request in the valid trials' histograms, 400 in each, once, in the ranges
// given by its edges.
func TestLatencyByBlockHasEveryRequest(t *testing.T) {
	for _, c := range dataFindings(t).Cells {
		counted := int64(0)
		for i, row := range c.Heat.Counts {
			if len(row) != len(c.Heat.EdgesUS)-1 {
				t.Errorf("%s: block %d has %d ranges of %d", c.Label, c.Heat.Blocks[i], len(row), len(c.Heat.EdgesUS)-1)
			}
			for _, n := range row {
				counted += n
			}
		}
		if want := 400 * int64(c.Valid); counted != want {
			t.Errorf("%s: counts %d requests of %d", c.Label, counted, want)
		}
		if first := c.Heat.EdgesUS[0]; first > c.Intended.Min || c.Heat.EdgesUS[len(c.Heat.EdgesUS)-1] < c.Intended.Max() {
			t.Errorf("%s: ranges from %v leave out %v or %v", c.Label, first, c.Intended.Min, c.Intended.Max())
		}
	}
}
