package fit

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
)

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
