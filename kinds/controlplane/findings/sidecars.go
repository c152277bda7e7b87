package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
)

// sidecarMeasures returns what a real sidecar without requests uses.
func sidecarMeasures() []analysis.Measure {
	var out []analysis.Measure
	add := func(name string, in func(*record.Control) *record.SidecarUse, of func(*record.SidecarUse) float64) {
		out = append(out, analysis.MeasureOf(name, ofPart(in, of)))
	}
	for _, when := range []struct {
		name string
		in   func(*record.Control) *record.SidecarUse
	}{{"idle", idleUse}, {"changing", changingUse}} {
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

// idleUse and changingUse return what real sidecars used before the changes and during them, nil if
// not measured.
func idleUse(c *record.Control) *record.SidecarUse {
	if c.Sidecars == nil {
		return nil
	}
	return c.Sidecars.Idle
}

func changingUse(c *record.Control) *record.SidecarUse {
	if c.Sidecars == nil {
		return nil
	}
	return c.Sidecars.Changing
}

// sidecarCPU returns the mean CPU of one sidecar, in thousandths of a core.
func sidecarCPU(u *record.SidecarUse) float64 { return 1000 * u.CPU.TotalS() / u.SidecarSeconds }

// sidecarCPUPerChange returns a sidecar's CPU time per change beyond idle use, in microseconds.
func sidecarCPUPerChange(c *record.Control) float64 {
	idle, u := idleUse(c), changingUse(c)
	if idle == nil || u == nil {
		return math.NaN()
	}
	beyond := (sidecarCPU(u) - sidecarCPU(idle)) / 1000 * u.SidecarSeconds
	return ratio(1e6*beyond/float64(u.Sidecars), float64(c.Committed))
}
