package model

import "slices"

// Published is a published size of a control plane beside the model's prediction.
type Published struct {
	Source string   `json:"source"`
	Claim  string   `json:"claim"`
	Mesh   Mesh     `json:"mesh"`
	Output string   `json:"output"` // OutCPU or OutMemory
	Unit   string   `json:"unit"`
	Figure float64  `json:"figure"`
	Model  Interval `json:"model"`
	Beyond float64  `json:"beyond"`
}

type claim struct {
	source, text      string
	proxies, services int
	rate, cores       float64
	cpu, memory       float64 // 0: not published
}

// claims are published sizes of control planes. None gives the rate of changes; the rates here
// are chosen.
var claims = []claim{
	{"Istio's documentation", "1,000 services, 2,000 sidecars", 2000, 1000, 0.1, 1, 1, 1.5e9},
	{"AKS, ClusterLoader2, D16 v3", "25,000 sidecars, one service", 25000, 1, 0.1, 16, 15, 32.1e9},
	{"AKS, ClusterLoader2, D16 v3", "15,000 sidecars, churn of 25%", 15000, 1, 1, 16, 0, 22.2e9},
	{"AKS, ClusterLoader2, D16 v3", "15,000 sidecars, churn of 50%", 15000, 1, 2, 16, 0, 25.4e9},
	{"AKS, ClusterLoader2, D16 v3", "20,000 sidecars, 1,000 services", 20000, 1000, 0.1, 16, 15, 40.4e9},
	{"Kong Mesh's documentation", "1,000 proxies", 1000, 100, 0.1, 4, 4, 2e9},
	{"folklore", "below 100 pods", 100, 30, 0.1, 0.5, 0.5, 512 * 1024 * 1024},
}

// ComparePublished predicts the published meshes with changes of the model's own mix.
func (m *Model) ComparePublished(o Options) ([]Published, error) {
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
			row := Published{Source: c.source, Claim: c.text, Mesh: mesh, Output: x.output, Figure: x.figure, Model: p.Output(x.output), Beyond: p.Times}
			i := slices.IndexFunc(Outputs, func(d OutputDef) bool { return d.Name == x.output })
			row.Unit = Outputs[i].Unit
			out = append(out, row)
		}
	}
	return out, nil
}
