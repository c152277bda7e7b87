package model

import (
	"encoding/json"
	"fmt"
)

// Schema of a model's document.
const Schema = 4

// Interval is an estimate with the bounds of its interval.
type Interval struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Known reports whether the interval says how certain the estimate is.
func (i Interval) Known() bool { return i.Low < i.High }

// upTo caps an interval.
func (i Interval) upTo(most float64) Interval {
	return Interval{min(i.Estimate, most), min(i.Low, most), min(i.High, most)}
}

// Model is what runs say of an istiod: the document model.json.
type Model struct {
	Schema int      `json:"schema"`
	Runs   []Source `json:"runs"`
	// Parameters have 90% intervals, from trials drawn again.
	Parameters []Fitted `json:"parameters"`
	// Draws are parameters as further draws of the trials give them, in the same
	// order.
	Draws [][]float64 `json:"draws"`
	// Residuals are how far predictions are off, by output.
	Residuals []Residual `json:"residuals"`
	// Measured is between what the runs' trials lie.
	Measured Span `json:"measured"`
	// Mix are the kinds of change of these runs, by how many there were.
	Mix map[string]float64 `json:"mix"`
	// Cells are what was measured beside what is predicted for it.
	Cells []Cell `json:"cells"`
	// HeldOut are cells that neither the fit nor the residuals were shown.
	HeldOut []Cell `json:"held_out,omitempty"`
	Notes   []Note `json:"notes,omitempty"`
}

// Source is a run that a model was fitted to.
type Source struct {
	Run     string    `json:"run"` // its id
	Study   string    `json:"study"`
	Machine string    `json:"machine"` // its CPUs
	Istiod  string    `json:"istiod,omitempty"`
	Trials  int       `json:"trials"` // that were used
	Left    []LeftOut `json:"left_out,omitempty"`
}

// LeftOut counts the trials that a fit left out for one reason.
type LeftOut struct {
	Why
	Trials int `json:"trials"`
}

// Why is the reason for leaving a trial out.
type Why struct {
	Code WhyCode `json:"code"`
	// Part, On and Usual are of [WhyMachine]: what ran on another machine than usual.
	Part  string `json:"part,omitempty"`
	On    string `json:"on,omitempty"`
	Usual string `json:"usual,omitempty"`
	Level string `json:"level,omitempty"` // of [WhyClients] and [WhyCell]
}

// WhyCode names a reason.
type WhyCode string

// The reasons for leaving trials out.
const (
	WhyInvalid     WhyCode = "invalid"
	WhyNoMetrics   WhyCode = "no_istiod_metrics"
	WhyNoProxies   WhyCode = "no_simulated_sidecars"
	WhyRealProxies WhyCode = "real_proxies"
	WhyNoCPU       WhyCode = "no_istiod_cpu"
	WhyNoChanges   WhyCode = "no_changes"
	WhyNoPushes    WhyCode = "no_pushes"
	WhyCell        WhyCode = "cell" // its levels cannot be read
	WhyScope       WhyCode = "scope"
	WhyClients     WhyCode = "clients"
	WhyXDS         WhyCode = "state_of_the_world"
	WhyHBONE       WhyCode = "hbone"
	WhyMachine     WhyCode = "other_machine"
)

// Note is a limitation of a model that its reader can do something about.
type Note struct {
	Code     NoteCode `json:"code"`
	N        int      `json:"n,omitempty"`
	Of       int      `json:"of,omitempty"`
	Machines []string `json:"machines,omitempty"`
}

// NoteCode names a limitation.
type NoteCode string

// The limitations of models.
const (
	NoteOneCell     NoteCode = "one_cell"
	NoteOneTrial    NoteCode = "one_trial" // in N of Of cells
	NoteNoP99       NoteCode = "no_p99"    // of convergence, in N of Of trials
	NoteMachines    NoteCode = "machines"  // N trials on others are left out
	NoteIstiodsVary NoteCode = "istiod_versions"
)

// Fitted is a parameter of a model.
type Fitted struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Meaning string `json:"meaning"`
	Interval
	// Assumed says that the runs do not determine the parameter: they have nothing of it, or, if
	// Undivided, only its sum with other costs.
	Assumed   bool   `json:"assumed,omitempty"`
	Undivided bool   `json:"undivided,omitempty"`
	Study     string `json:"study,omitempty"` // the command that would
}

// Residual is how far predictions of cells that the fit was not shown are off.
type Residual struct {
	Output string `json:"output"`
	// Spread is the root mean square of ln(measured/predicted).
	Spread float64 `json:"spread"`
	Cells  int     `json:"cells"`
	// Median is that of |measured/predicted-1|.
	Median float64 `json:"median_error"`
}

// Span is what was measured, smallest and largest.
type Span struct {
	Proxies  [2]float64 `json:"proxies"` // of a replica
	Services [2]float64 `json:"services"`
	Rate     [2]float64 `json:"rate"`
	Cores    [2]float64 `json:"cores"`
}

// Cell is one cell of a run: what was measured, the median of its trials, beside
// what a model fitted without it predicts.
type Cell struct {
	Run      string    `json:"run"`
	Cell     string    `json:"cell"`
	Proxies  int       `json:"proxies"`
	Services int       `json:"services"`
	Rate     float64   `json:"rate"`
	Trials   int       `json:"trials"`
	Outputs  []Against `json:"outputs"`
}

// Against is a measured output beside its prediction, with the 90% interval
// where there is one.
type Against struct {
	Output    string  `json:"output"`
	Unit      string  `json:"unit"`
	Measured  float64 `json:"measured"`
	Predicted float64 `json:"predicted"`
	Low       float64 `json:"low,omitempty"`
	High      float64 `json:"high,omitempty"`
}

// mostOf bounds parameters so that sums of them stay finite.
const mostOf = 1e15

// Values are the parameters' estimates.
func (m *Model) Values() (Values, error) {
	var v Values
	if len(m.Parameters) != Parameters {
		return v, fmt.Errorf("the model has %d parameters, not %d", len(m.Parameters), Parameters)
	}
	for i, p := range m.Parameters {
		if p.Name != Definitions[i].Name {
			return v, fmt.Errorf("parameter %d of the model is %q, not %q", i, p.Name, Definitions[i].Name)
		}
		if !(p.Estimate >= 0) || p.Estimate > mostOf {
			return v, fmt.Errorf("parameter %s of the model is %g", p.Name, p.Estimate)
		}
		v[i] = p.Estimate
	}
	return v, nil
}

// MaxFile is the largest document that [Parse] takes.
const MaxFile = 16 << 20

// Parse reads a model's document.
func Parse(data []byte) (*Model, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%d bytes are more than a model may have (%d)", len(data), MaxFile)
	}
	var m Model
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("not a capacity model: %w", err)
	}
	if m.Schema != Schema {
		return nil, fmt.Errorf("the model has schema %d, and this version reads %d: fit it again", m.Schema, Schema)
	}
	if _, err := m.Values(); err != nil {
		return nil, err
	}
	for _, d := range m.Draws {
		if len(d) != Parameters {
			return nil, fmt.Errorf("a draw of the model has %d parameters, not %d", len(d), Parameters)
		}
		for i, v := range d {
			if !(v >= 0) || v > mostOf {
				return nil, fmt.Errorf("a draw of the model has %g as %s", v, Definitions[i].Name)
			}
		}
	}
	for _, r := range m.Residuals {
		if !(r.Spread >= 0) || r.Spread > 20 {
			return nil, fmt.Errorf("the residual of %s is %g", r.Output, r.Spread)
		}
	}
	for name, weight := range m.Mix {
		if _, ok := KindOf(name); !ok || !(weight >= 0) || weight > 1e12 {
			return nil, fmt.Errorf("the model's mix has %s with weight %g", name, weight)
		}
	}
	return &m, nil
}

// Assumptions returns the parameters that the runs do not determine.
func (m *Model) Assumptions() []Fitted {
	var out []Fitted
	for _, p := range m.Parameters {
		if p.Assumed {
			out = append(out, p)
		}
	}
	return out
}

// With fewer than fewCells cells a residual is at least leastSpread: a factor of 1.5.
const (
	fewCells    = 3
	leastSpread = 0.405
)

// residual returns an output's residual; the widest of all if no cell measured the output.
func (m *Model) residual(output string) Residual {
	switch output { // those that are not measured err like what they are made of
	case OutStale:
		output = OutConvergenceP50
	case OutPushesPerChange:
		output = OutPushes
	}
	out := Residual{Output: output}
	for _, r := range m.Residuals {
		if r.Output == output && r.Cells > 0 {
			out = r
			break
		}
		if r.Spread > out.Spread {
			out.Spread = r.Spread
		}
	}
	if out.Cells < fewCells {
		out.Spread = max(out.Spread, leastSpread)
	}
	return out
}
