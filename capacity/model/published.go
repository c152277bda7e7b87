package model

import (
	"fmt"
	"math"
	"slices"
)

// Published is what others say that an istiod takes, beside this model.
type Published struct {
	Source string   `json:"source"`
	Claim  string   `json:"claim"`
	Mesh   Mesh     `json:"mesh"`
	Output string   `json:"output"` // OutCPU or OutMemory
	Unit   string   `json:"unit"`
	Figure float64  `json:"figure"`
	Model  Interval `json:"model"`
	Beyond float64  `json:"beyond"`
	Words  string   `json:"words"`
}

type claim struct {
	source, text      string
	proxies, services int
	rate, cores       float64
	cpu, memory       float64 // 0: not published
}

// claims are published sizes of control planes. None says at which rate changes
// came: that is chosen here.
var claims = []claim{
	{"Istio's documentation", "1,000 services, 2,000 sidecars", 2000, 1000, 0.1, 1, 1, 1.5e9},
	{"AKS, ClusterLoader2, D16 v3", "25,000 sidecars, one service", 25000, 1, 0.1, 16, 15, 32.1e9},
	{"AKS, ClusterLoader2, D16 v3", "15,000 sidecars, churn of 25%", 15000, 1, 1, 16, 0, 22.2e9},
	{"AKS, ClusterLoader2, D16 v3", "15,000 sidecars, churn of 50%", 15000, 1, 2, 16, 0, 25.4e9},
	{"AKS, ClusterLoader2, D16 v3", "20,000 sidecars, 1,000 services", 20000, 1000, 0.1, 16, 15, 40.4e9},
	{"Kong Mesh's documentation", "1,000 proxies", 1000, 100, 0.1, 4, 4, 2e9},
	{"folklore", "below 100 pods", 100, 30, 0.1, 0.5, 0.5, 512 * 1024 * 1024},
}

// ComparePublished sets published figures beside what the model says of such a
// mesh, for changes of the model's own mix.
func (m *Model) ComparePublished(o Options) ([]Published, error) {
	v, err := m.Values()
	if err != nil {
		return nil, err
	}
	if o.Draws == 0 {
		o.Draws = 20
	}
	var out []Published
	for _, c := range claims {
		mesh := Default()
		mesh.Proxies, mesh.Services, mesh.Rate, mesh.Cores, mesh.Mix = c.proxies, c.services, c.rate, c.cores, m.Mix
		p, err := m.Predict(mesh, o)
		if err != nil {
			return nil, err
		}
		for _, x := range []struct {
			output string
			figure float64
		}{{OutCPU, c.cpu}, {OutMemory, c.memory}} {
			if x.figure == 0 {
				continue
			}
			row := Published{Source: c.source, Claim: c.text, Mesh: mesh, Output: x.output, Figure: x.figure, Model: p.Output(x.output), Beyond: p.Beyond}
			i := slices.IndexFunc(Outputs, func(d OutputDef) bool { return d.Name == x.output })
			row.Unit = Outputs[i].Unit
			row.Words = v.words(c, x.output, row)
			out = append(out, row)
		}
	}
	return out, nil
}

// words say how a published figure and the model's stand to each other.
func (v *Values) words(c claim, output string, p Published) string {
	agree := "the published figure lies within the interval"
	switch {
	case p.Figure > p.Model.High:
		agree = fmt.Sprintf("the published figure is %.2g times the model's", p.Figure/p.Model.Estimate)
	case p.Figure < p.Model.Low:
		agree = fmt.Sprintf("the model's is %.2g times the published figure", p.Model.Estimate/p.Figure)
	case p.Model.High > 10*p.Model.Low:
		agree = fmt.Sprintf("the published figure lies within the interval, which says little: the mesh lies %.3g times beyond what was measured", p.Beyond)
	}
	if output == OutMemory {
		return fmt.Sprintf("%s; published %.2f MB a sidecar, here %.2f MB", agree, p.Figure/1e6/float64(c.proxies), v.Slope(c.services)/1e6)
	}
	return fmt.Sprintf("%s, at %g changes a second, which is chosen here: nobody published the rate; a push of all that changes bring takes %.3g CPU seconds to all sidecars",
		agree, c.rate, v.pushCPU(p.Mesh)*float64(c.proxies))
}

// PublishedSlope is the memory that a sidecar adds to istiod by the published
// tables: 0.75 to 2 MB, rising with services and churn.
var PublishedSlope = [2]float64{0.75e6, 2.0e6}

// Slope is the memory that one more proxy adds to a replica, in a mesh of some
// services.
func (v *Values) Slope(services int) float64 {
	return v[MemoryPerProxy] + v[MemoryPerPair]*float64(services)
}

// SlopeWords say whether the published slope of memory comes out of the model,
// and if not, why not.
func (m *Model) SlopeWords() []string {
	v, err := m.Values()
	if err != nil {
		return nil
	}
	few, many := v.Slope(1), v.Slope(1000)
	out := []string{fmt.Sprintf("A sidecar adds %.2f MB to istiod with one service and %.2f MB with 1,000; published are %.2f to %.1f MB, rising with services and churn.",
		few/1e6, many/1e6, PublishedSlope[0]/1e6, PublishedSlope[1]/1e6)}
	switch {
	case m.Parameters[MemoryPerProxy].Assumed:
		out = append(out, "What a sidecar adds is assumed, not measured: the runs have one number of proxies. `"+m.Parameters[MemoryPerProxy].Study+"` would tell.")
	case many < PublishedSlope[0]:
		out = append(out, "That is less. The model is of memory in use at the end of a window, with Go's collector at its usual target; published are peaks, or limits that leave room for one, in meshes that push all the time, where garbage of as much as the live heap is added, and with real sidecars, each with a connection over TLS of its own.")
	case few > PublishedSlope[1]:
		out = append(out, "That is more: in small meshes istiod's garbage of a window weighs on few proxies.")
	}
	if m.Parameters[MemoryPerPair].Assumed || v[MemoryPerPair] == 0 {
		out = append(out, "That it rises with services cannot be told from these runs: "+reason(m.Parameters[MemoryPerPair]))
	}
	if m.Parameters[MemoryPerRate].Assumed || v[MemoryPerRate] == 0 {
		out = append(out, "Nor that it rises with churn: "+reason(m.Parameters[MemoryPerRate]))
	}
	return out
}

func reason(f Fitted) string {
	if f.Assumed {
		return f.Why + "; `" + f.Study + "` would tell."
	}
	return fmt.Sprintf("its share comes out as %.3g %s, at most %.3g.", f.Estimate, f.Unit, math.Max(f.High, f.Estimate))
}
