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
	// Slope is what one more sidecar adds to the memory here, with what is sent to
	// it; of OutMemory.
	Slope float64 `json:"slope,omitempty"`
	Words string  `json:"words"`
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
			if x.output == OutMemory {
				row.Slope = v.Slope(c.services) + v[MemoryPerRate]*p.Output(OutBytes).Estimate/float64(c.proxies)
			}
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
		agree = fmt.Sprintf("the published figure is %s times the model's", Figure(p.Figure/p.Model.Estimate, 2))
	case p.Figure < p.Model.Low:
		agree = fmt.Sprintf("the model's is %s times the published figure", Figure(p.Model.Estimate/p.Figure, 2))
	case p.Model.High > 10*p.Model.Low:
		agree = fmt.Sprintf("the published figure lies within the interval, which says little: the mesh lies %s times beyond what was measured", Figure(p.Beyond, 3))
	}
	if output == OutMemory {
		return fmt.Sprintf("%s; published %.2f MB a sidecar, here one more adds %.2f MB", agree, p.Figure/1e6/float64(c.proxies), p.Slope/1e6)
	}
	return fmt.Sprintf("%s, at %g changes a second, which is chosen here: nobody published the rate; a push of all that changes bring takes %s CPU seconds to all sidecars",
		agree, c.rate, Figure(v.pushCPU(p.Mesh)*float64(c.proxies), 3))
}

// Published memory of a sidecar, by AKS: with one service and with 1,000, without
// churn; and with one service when a quarter and half of the sidecars were replaced.
const (
	aksOneService  = 32.1e9 / 25000
	aksServices    = 40.4e9 / 20000
	aksQuarter     = 22.2e9 / 15000
	aksHalf        = 25.4e9 / 15000
	publishedLeast = 1.5e9 / 2000 // Istio's documentation, with 1,000 services
)

// Slope is the memory that one more proxy adds to a replica, in a mesh of some
// services, beside what is sent to it.
func (v *Values) Slope(services int) float64 {
	return v[MemoryPerProxy] + v[MemoryPerPair]*float64(services)
}

// SlopeWords say whether the published slopes of memory come out of the model: what a
// sidecar adds, more with services and churn; and if not, why not.
func (m *Model) SlopeWords() []string {
	v, err := m.Values()
	if err != nil {
		return nil
	}
	few, many := v.Slope(1), v.Slope(1000)
	out := []string{fmt.Sprintf("A sidecar adds %.2f MB to istiod with one service and %.2f MB with 1,000. Published are %.2f and %.2f MB (AKS), and %.2f MB with 1,000 (Istio).",
		few/1e6, many/1e6, aksOneService/1e6, aksServices/1e6, publishedLeast/1e6)}
	if p := m.Parameters[MemoryPerProxy]; p.Assumed {
		out = append(out, "What a sidecar adds is not measured by itself: "+reason(p))
	} else {
		out = append(out, level(few, many))
	}
	if p := m.Parameters[MemoryPerPair]; p.Assumed || p.Estimate == 0 {
		out = append(out, "That it rises with services cannot be told from these runs: "+reason(p))
	} else {
		out = append(out, fmt.Sprintf("It rises with services: each adds %.0f bytes for each sidecar%s, its names in the lists of clusters and endpoints that a connection watches; by AKS it is %.0f.",
			p.Estimate, p.Interval.within("%.0f"), (aksServices-aksOneService)/999))
	}
	out = append(out, fmt.Sprintf("AKS's churn replaces sidecars: with a quarter and half of them replaced each takes %.2f and %.2f MB more, %.1f MB for each that was replaced, so that one that is gone leaves some %.0f%% of what it took until the collector comes to it. That is not in this model, whose runs replace no sidecars.",
		(aksQuarter-aksOneService)/1e6, (aksHalf-aksOneService)/1e6, (aksHalf-aksOneService)/0.5/1e6, 100*(aksHalf-aksOneService)/0.5/aksOneService))
	if p := m.Parameters[MemoryPerRate]; p.Assumed || p.Estimate == 0 {
		out = append(out, "That memory rises with what is sent cannot be told from these runs: "+reason(p))
	} else {
		out = append(out, fmt.Sprintf("Changes of configuration are churn too: each MB/s that is sent adds %.2f MB%s.", p.Estimate, p.Interval.within("%.2f")))
	}
	return out
}

// level says how what a sidecar adds stands to what is published.
func level(few, many float64) string {
	switch {
	case few >= aksOneService && many >= aksServices:
		return "That is no less than published: in small meshes istiod's garbage of a window weighs on few proxies."
	case !(few > 0):
		return "The fit put all of the memory down to something else than sidecars: their number did not differ enough, or memory scattered too much."
	}
	return fmt.Sprintf("AKS's figures are %.1f and %.1f times as much. The model is of memory that is in use at the end of a window, in an istiod that was started a minute before; nobody says whether published figures are peaks, which Go's collector lets grow to twice what lives. That simulated sidecars weigh less is not why: real ones took 6%% more of istiod's memory (-1 to 13, simulated-against-real).",
		aksOneService/few, aksServices/many)
}

func reason(f Fitted) string {
	if f.Assumed {
		return f.Why + "; `" + f.Study + "` would tell."
	}
	return fmt.Sprintf("its share comes out as %s %s, at most %s.", Figure(f.Estimate, 3), f.Unit, Figure(math.Max(f.High, f.Estimate), 3))
}

// within is an interval's ends as words add them, "" where nobody knows any.
func (i Interval) within(format string) string {
	if !i.Known() {
		return ""
	}
	return fmt.Sprintf(" ("+format+" to "+format+")", i.Low, i.High)
}
