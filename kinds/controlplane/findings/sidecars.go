package findings

import (
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// sidecarMeasures returns what a real sidecar without requests uses.
func sidecarMeasures() []analysis.Measure {
	idle := func(s *record.Sidecars) *record.SidecarUse { return s.Idle }
	changing := func(s *record.Sidecars) *record.SidecarUse { return s.Changing }
	var out []analysis.Measure
	add := func(name string, in func(*record.Sidecars) *record.SidecarUse, of func(*record.SidecarUse) float64) {
		out = append(out, analysis.MeasureOf(name, ofControl(func(c *record.Control) float64 {
			if c.Sidecars == nil || in(c.Sidecars) == nil {
				return math.NaN()
			}
			return of(in(c.Sidecars))
		})))
	}
	for _, when := range []struct {
		name string
		in   func(*record.Sidecars) *record.SidecarUse
	}{{"idle", idle}, {"changing", changing}} {
		add("sidecar_cpu_"+when.name, when.in, sidecarCPU)
		add("sidecar_memory_"+when.name, when.in, func(u *record.SidecarUse) float64 {
			return analysis.Positive(float64(u.PSSBytes)) / float64(u.Sidecars)
		})
		for _, process := range []struct{ name, command string }{{"envoy", record.ProcessEnvoy}, {"agent", record.ProcessAgent}} {
			add(process.name+"_cpu_"+when.name, when.in, func(u *record.SidecarUse) float64 {
				p, ok := u.Processes[process.command]
				if !ok {
					return math.NaN()
				}
				return 1000 * p.CPUS / u.SidecarSeconds
			})
			add(process.name+"_memory_"+when.name, when.in, func(u *record.SidecarUse) float64 {
				return analysis.Positive(float64(u.Processes[process.command].PSSBytes)) / float64(u.Sidecars)
			})
		}
	}
	return append(out, analysis.MeasureOf("sidecar_cpu_per_change", ofControl(sidecarCPUPerChange)))
}

// sidecarCPU returns the mean CPU of one sidecar, in thousandths of a core.
func sidecarCPU(u *record.SidecarUse) float64 { return 1000 * u.CPU.TotalS() / u.SidecarSeconds }

// sidecarCPUPerChange returns a sidecar's CPU time per change beyond idle use, in microseconds.
func sidecarCPUPerChange(c *record.Control) float64 {
	if c.Sidecars == nil || c.Sidecars.Idle == nil || c.Sidecars.Changing == nil || c.Committed <= 0 {
		return math.NaN()
	}
	u := c.Sidecars.Changing
	beyond := (sidecarCPU(u) - sidecarCPU(c.Sidecars.Idle)) / 1000 * u.SidecarSeconds
	return 1e6 * beyond / float64(u.Sidecars) / float64(c.Committed)
}

// idleNotes explain why a sidecar without requests uses so much less than the one with requests in
// a published figure, and what it uses the CPU for.
func idleNotes(c *analysis.Beside, p study.Published, f *record.Finding, cell int) []note.Note {
	measured := func(name string) any {
		x := c.Find(name, cell)
		if x == nil || x.Verdict != record.VerdictMeasured {
			return nil
		}
		return words.Quantity(x.Estimate, x.Unit)
	}
	envoy, agent := measured("envoy"+strings.TrimPrefix(p.Finding, "sidecar")), measured("agent"+strings.TrimPrefix(p.Finding, "sidecar"))
	if strings.HasPrefix(p.Finding, "sidecar_memory") {
		return []note.Note{noteMemoryOfPod.Of(envoy)}
	}
	out := []note.Note{notePriceOfRequests.Of()}
	if envoy != nil && agent != nil {
		out = append(out, noteByTheClock.Of(envoy, agent))
	}
	if p.Figure > 0 && f.Estimate > 0 && f.Estimate < p.Figure {
		const pods = 1000
		out = append(out, noteThousandIdle.Of(words.Figures(pods*f.Estimate/1000), words.Figures(pods*p.Figure/1000)))
	}
	if busy := measured("sidecar_cpu_changing"); busy != nil && p.Finding == "sidecar_cpu_idle" {
		out = append(out, noteIdleButPushed.Of(busy))
	}
	return out
}
