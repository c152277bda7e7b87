package findings

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// billStudy has parts of existing factors; the world defines their costs.
const billStudy = `
name: bill
title: Bill
question: What does each part cost?
mesh: istio
settings: {sidecars: both, rate: 1000, mtls: "off"}
bill:
  parts:
    costly: {telemetry: access-log-json}
    cheap: {concurrency: 4}
    nothing: {cpu_limit: 1500m}
    tls: {mtls: strict}
blocks: {min: 8, max: 8, limit: 10m}
stop: none
measures: [latency, cpu, memory]
`

// planted holds the microseconds per request that parts cost each proxy.
type planted struct{ costly, cheap, nothing, tls, together float64 }

// billWorld returns a world in which parts cost what is planted, and all together more than their
// sum.
func billWorld(p planted, noise float64) analysistest.World {
	w := analysistest.Quiet()
	w.Noise = noise
	w.CPU = func(c record.Cell, part string, rps float64) float64 {
		if part != record.PartClientProxy && part != record.PartServerProxy {
			return 100e-6 * rps
		}
		us := 100.0
		if c[study.FactorTelemetry] == study.TelemetryJSON {
			us += p.costly
		}
		if c[study.FactorConcurrency] == "4" {
			us += p.cheap
		}
		if c[study.FactorCPULimit] != study.CPULimitNone {
			us += p.nothing
		}
		if c[study.FactorMTLS] == study.MTLSStrict {
			us += p.tls
		}
		if c[study.FactorTelemetry] == study.TelemetryJSON && c[study.FactorConcurrency] == "4" && c[study.FactorMTLS] == study.MTLSStrict && c[study.FactorCPULimit] != study.CPULimitNone {
			us += p.together
		}
		return us * 1e-6 * rps
	}
	return w
}

func billOf(t *testing.T, f record.Findings) record.Bill {
	t.Helper()
	if len(f.Bills) != 1 {
		t.Fatalf("%d bills", len(f.Bills))
	}
	return f.Bills[0]
}

func names(parts []record.BillPart) string {
	var out []string
	for _, p := range parts {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

// Planted costs are found, in order, with the sum of the parts next to the cost of all together.
func TestBillFindsWhatIsPlanted(t *testing.T) {
	b := billOf(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, billStudy, 8, 1, billWorld(planted{costly: 50, cheap: 5, tls: 20, together: 12}, 0.004))))
	if got := names(b.Parts); got != "costly tls cheap nothing" {
		t.Fatal(got)
	}
	for i, want := range []float64{100, 40, 10, 0} { // two proxies
		p := b.Parts[i]
		cpu := p.Figures[dataplane.BillCPU]
		if cpu.Low > want || cpu.High < want || math.Abs(cpu.Estimate-want) > 3 || cpu.Unit != finding.UnitPerRequest || cpu.Blocks != 8 {
			t.Errorf("%s: %+v, planted %g", p.Name, cpu, want)
		}
		if p.RankLow != i+1 || p.RankHigh != i+1 {
			t.Errorf("%s: places %d to %d", p.Name, p.RankLow, p.RankHigh)
		}
		half := p.Figures[dataplane.BillCPUOf(record.PartServerProxy)].Estimate
		if math.Abs(half-want/2) > 2 {
			t.Errorf("%s: %g at the server's proxy, planted %g", p.Name, half, want/2)
		}
		if share := p.Figures[dataplane.BillShare].Estimate; math.Abs(share-want/(200+want)) > 0.02 {
			t.Errorf("%s: share %g", p.Name, share)
		}
		if m := p.Figures[dataplane.BillMemory]; m.Unit != finding.UnitBytes || m.Low > 0 || m.High < 0 {
			t.Errorf("%s: memory %+v", p.Name, m)
		}
	}
	if cpu := b.Parts[3].Figures[dataplane.BillCPU]; cpu.Low > 0 || cpu.High < 0 {
		t.Errorf("a part that costs nothing: %+v", cpu)
	}
	s := b.Together
	for _, c := range []struct {
		what string
		got  record.Priced
		want float64
	}{{"sum", s.Sum, 150}, {"together", s.Together, 174}, {"interaction", s.Interaction, 24}} {
		if c.got.Low > c.want || c.got.High < c.want || c.got.High-c.got.Low > 12 {
			t.Errorf("%s: %+v, planted %g", c.what, c.got, c.want)
		}
	}
	if s.Interaction.Verdict != record.VerdictReal {
		t.Errorf("%+v", s.Interaction)
	}
}

// Parts that cannot be distinguished share ranks.
func TestBillRanksOverlap(t *testing.T) {
	b := billOf(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, billStudy, 6, 5, billWorld(planted{costly: 50, cheap: 10, tls: 10.05}, 0.01))))
	for _, p := range b.Parts {
		low, high := 2, 3
		switch p.Name {
		case "costly":
			low, high = 1, 1
		case "nothing":
			low, high = 4, 4
		}
		if p.RankLow != low || p.RankHigh != high {
			t.Errorf("%s: places %d to %d, want %d to %d", p.Name, p.RankLow, p.RankHigh, low, high)
		}
	}
}

// Only a trial without a part shows what removing it saves.
func TestBillRemoves(t *testing.T) {
	w := billWorld(planted{costly: 50, cheap: 5, tls: 20, together: 12}, 0.004)
	text := strings.Replace(billStudy, "bill:\n", "money: {rps: 1000000, core_month: 40}\nbill:\n  direct: remove\n", 1)
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 8, 3, w))
	b := billOf(t, f)
	if len(b.Parts) != 0 || names(b.Removed) != "costly tls cheap nothing" {
		t.Fatalf("%s; %s", names(b.Parts), names(b.Removed))
	}
	// Removing any of them also removes the 12 that they cost together.
	for i, want := range []float64{124, 64, 34, 24} {
		cpu := b.Removed[i].Figures[dataplane.BillCPU]
		if cpu.Low > want || cpu.High < want || math.Abs(cpu.Estimate-want) > 4 {
			t.Errorf("%s: %+v, planted %g", b.Removed[i].Name, cpu, want)
		}
	}
	money := b.Removed[0].Figures[dataplane.BillMoney]
	if want := 124e-6 * 1e6 * 40; money.Low > want || money.High < want || money.Unit != "USD/month" {
		t.Errorf("saved %+v, want %g", money, want)
	}
	saved := analysistest.Get(t, f, "saved_cpu", record.Cell{"variant": "without-costly"})
	if saved.Against["variant"] != dataplane.BillTogether || saved.Verdict != record.VerdictReal {
		t.Errorf("%+v", saved)
	}
	if add := billOf(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, billStudy, 4, 3, w))); len(add.Removed) != 0 {
		t.Errorf("nothing was removed, but: %+v", add.Removed)
	}
}

// Memory is that of idle proxies if it was read.
func TestBillOfIdleMemory(t *testing.T) {
	w := billWorld(planted{}, 0.004)
	w.Spoil = func(tr *record.Trial) {
		for part, m := range tr.Memory {
			m.IdlePSSBytes = 40e6
			if tr.Cell[study.FactorTelemetry] == study.TelemetryJSON {
				m.IdlePSSBytes += 3e6
			}
			tr.Memory[part] = m
		}
	}
	for _, p := range billOf(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, billStudy, 4, 1, w))).Parts {
		want := 0.0
		if p.Name == "costly" {
			want = 6e6
		}
		if m := p.Figures[dataplane.BillMemory]; m.Estimate != want {
			t.Errorf("%s: %+v, want %g", p.Name, m, want)
		}
	}
}

// A part whose trials are missing or invalid has no price, ranks last, and invalidates the sum. The
// others keep their prices.
func TestBillWithoutTrials(t *testing.T) {
	w := billWorld(planted{costly: 50, tls: 20, cheap: 5}, 0.004)
	w.Spoil = lost(func(tr *record.Trial) bool { return tr.Cell[study.FactorVariant] == "costly" && tr.Block > 0 })
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, billStudy, 6, 2, w))
	b := billOf(t, f)
	if got := names(b.Parts); got != "tls cheap nothing costly" {
		t.Fatal(got)
	}
	last := b.Parts[3]
	if last.RankLow != 0 || last.Figures[dataplane.BillCPU].Verdict != record.VerdictInvalid {
		t.Errorf("%+v", last)
	}
	if b.Parts[0].RankLow != 1 || b.Parts[2].RankHigh != 3 {
		t.Errorf("places %+v", b.Parts)
	}
	if b.Together.Interaction.Verdict != record.VerdictInvalid || b.Together.Together.Verdict != record.VerdictReal {
		t.Errorf("%+v", b.Together)
	}
	for _, n := range []int{0, 1} {
		b := billOf(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, billStudy, n, 2, billWorld(planted{}, 0.004))))
		for _, p := range b.Parts {
			if p.Figures[dataplane.BillCPU].Verdict != record.VerdictInvalid {
				t.Errorf("%d blocks: %s: %+v", n, p.Name, p.Figures)
			}
		}
	}
}

// If a trial of one part is lost, the whole and the sum cover the same blocks, so that their
// difference adds up.
func TestBillAddsUpWithALostTrial(t *testing.T) {
	w := billWorld(planted{costly: 50, tls: 20}, 0.05)
	w.Spoil = lost(func(tr *record.Trial) bool { return tr.Cell[study.FactorVariant] == "costly" && tr.Block == 2 })
	s := billOf(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, billStudy, 6, 2, w))).Together
	if s.Together.Blocks != 5 || math.Abs(s.Together.Estimate-s.Sum.Estimate-s.Interaction.Estimate) > 1e-9 {
		t.Errorf("%+v", s)
	}
}

// Ranks hold for all parts simultaneously: among parts with equal costs, one is hardly ever
// reported as more expensive than another.
func TestBillPlacesOfEqualParts(t *testing.T) {
	told, worlds := 0, 300
	for seed := range worlds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		parts := make([]record.BillPart, 8)
		costs := make([][]float64, len(parts))
		for i := range parts {
			parts[i].Figures = map[string]record.Priced{dataplane.BillCPU: {Verdict: record.VerdictReal}}
			for range 6 {
				costs[i] = append(costs[i], 10+rng.NormFloat64())
			}
		}
		rankParts(parts, costs)
		if slices.ContainsFunc(parts, func(p record.BillPart) bool { return p.RankLow != 1 || p.RankHigh != len(parts) }) {
			told++
		}
	}
	if told > worlds*5/100 {
		t.Errorf("in %d of %d lists of equal parts one is told to be dearer than another", told, worlds)
	}
}

// There is a bill for each combination of the other factors, and none for other studies.
func TestBillsByFactor(t *testing.T) {
	text := strings.Replace(billStudy, "rate: 1000, ", "", 1) + "factors: {rate: [500, 1000], variant: [base, costly, together]}\n"
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 4, 1, billWorld(planted{costly: 50}, 0.004)))
	if len(f.Bills) != 2 || f.Bills[0].Cell["rate"] != "500" || f.Bills[1].Cell["rate"] != "1000" || names(f.Bills[0].Parts) != "costly" {
		t.Fatalf("%+v", f.Bills)
	}
	if s := f.Bills[0].Together; s.Sum.Verdict != record.VerdictInvalid || s.Together.Verdict != record.VerdictReal {
		t.Errorf("%+v", s)
	}
	if f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 4, 1, analysistest.Quiet())); len(f.Bills) != 0 {
		t.Errorf("%+v", f.Bills)
	}
}

// With only a server's sidecar there are no figures for the client's.
func TestBillOfOneProxy(t *testing.T) {
	text := strings.Replace(strings.Replace(billStudy, "sidecars: both", "sidecars: server", 1), "    tls: {mtls: strict}\n", "", 1)
	b := billOf(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 1, billWorld(planted{costly: 50}, 0.004))))
	figures := b.Parts[0].Figures
	if _, ok := figures[dataplane.BillCPUOf(record.PartClientProxy)]; ok || figures[dataplane.BillCPU] != figures[dataplane.BillCPUOf(record.PartServerProxy)] || math.Abs(figures[dataplane.BillCPU].Estimate-50) > 3 {
		t.Errorf("%+v", figures)
	}
}

// Whatever is planted, intervals contain their estimates, ranks lie within the list and follow the
// order, and the interaction is the rest beyond the sum.
func TestBillHoldsTogether(t *testing.T) {
	text := strings.Replace(billStudy, "rate: 1000", "rate: 20", 1)
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 2))
		us := func() float64 { return 60 * r.Float64() }
		blocks := 2 + int(seed%5)
		b := billOf(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, blocks, seed, billWorld(planted{us(), us(), 0, us(), us()}, 0.02))))
		for i, part := range b.Parts {
			for name, f := range part.Figures {
				if name == dataplane.BillP99 {
					continue // too few requests beyond it
				}
				if f.Low > f.Estimate || f.High < f.Estimate || f.Blocks != blocks {
					t.Errorf("seed %d: %s %s: %+v", seed, part.Name, name, f)
				}
			}
			if part.RankLow < 1 || part.RankLow > i+1 || part.RankHigh < i+1 || part.RankHigh > len(b.Parts) {
				t.Errorf("seed %d: %s at place %d may have %d to %d", seed, part.Name, i+1, part.RankLow, part.RankHigh)
			}
		}
		s := b.Together
		if math.Abs(s.Together.Estimate-s.Sum.Estimate-s.Interaction.Estimate) > 1e-9 || !slices.IsSortedFunc(b.Parts, dearest) {
			t.Errorf("seed %d: %s, %+v", seed, names(b.Parts), s)
		}
	}
}

// A bill without real costs calls something real in few runs, however many figures and combinations
// of other factors it has; by separate intervals it would in many.
func TestSimulationABillIsOneFamily(t *testing.T) {
	text := strings.Replace(billStudy, "rate: 1000, ", "", 1) + "factors: {rate: [200, 250, 300]}\n"
	areOneFamily(t, text, billWorld(planted{}, 0.02), dataplane.FindingBill)
}

// areOneFamily checks that a study without effects has a real finding of a probe in few runs, but
// would in many by separate intervals.
func areOneFamily(t *testing.T, text string, w analysistest.World, probe string) {
	t.Helper()
	const runs, most = 60, 6 // 5%, plus 1.8 standard errors
	alone, called := 0, 0
	for seed := range runs {
		f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 8, uint64(seed), w))
		is := func(x record.Finding) bool { return x.Probe == probe && x.Verdict == record.VerdictReal }
		if slices.ContainsFunc(f.Findings, is) {
			called++
		}
		if slices.ContainsFunc(f.Findings, func(x record.Finding) bool { return is(x) || x.Probe == probe && x.Reason == record.ReasonMany }) {
			alone++
		}
	}
	t.Logf("of %d runs %d have a finding that is real by itself, %d one that is real in its family", runs, alone, called)
	if called > most || alone <= most {
		t.Errorf("want more than %d without the family's rule, and no more with it", most)
	}
}

// A percentile with too few requests beyond it has no price, and says why.
func TestBillOfTooFewRequests(t *testing.T) {
	text := strings.Replace(billStudy, "rate: 1000", "rate: 100", 1)
	x := analysistest.Get(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 4, billWorld(planted{}, 0.004))), "bill_latency_p99", record.Cell{"variant": "costly"})
	if x.Verdict != record.VerdictInvalid || x.Reason != record.ReasonTooFew || x.Warnings[0].Code != "few_beyond" {
		t.Errorf("%+v", x)
	}
}

// If pods served several blocks, a block that lacks one of two cells is dropped for both: the
// machine may have been different in it.
func TestBillOfWholeBlocks(t *testing.T) {
	w := billWorld(planted{costly: 50, tls: 20}, 0.004)
	w.Deployments = 2
	w.Spoil = func(trial *record.Trial) {
		if trial.Block%2 == 0 {
			return
		}
		for part, cpu := range trial.CPU { // twice as slow
			trial.CPU[part] = record.CPU{UserS: 2 * cpu.UserS, SystemS: 2 * cpu.SystemS}
		}
		if trial.Cell[study.FactorCPULimit] != study.CPULimitNone && trial.Cell[study.FactorTelemetry] != study.TelemetryJSON {
			trial.Validity.Valid = false
		}
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, billStudy, 8, 1, w))
	b := billOf(t, f)
	for _, p := range b.Parts {
		if cpu := p.Figures[dataplane.BillCPU]; p.Name == "nothing" && (cpu.Low > 0 || cpu.High < 0 || math.Abs(cpu.Estimate) > 5 || cpu.Blocks != 4) {
			t.Errorf("%s: %+v", p.Name, cpu)
		}
		if share := p.Figures[dataplane.BillShare]; p.Name == "nothing" && math.Abs(share.Estimate) > 0.03 {
			t.Errorf("%s: share %+v", p.Name, share)
		}
	}
	if i := b.Together.Interaction; math.Abs(i.Estimate) > 8 {
		t.Errorf("interaction of none: %+v", i)
	}
}
