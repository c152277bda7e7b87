package model

import (
	"encoding/json"
	"fmt"
)

// Schema is the version of a model's document.
const Schema = 4

// Interval is an estimate with its bounds.
type Interval struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Known reports whether the interval expresses the uncertainty of the estimate.
func (i Interval) Known() bool { return i.Low < i.High }

// upTo caps an interval.
func (i Interval) upTo(most float64) Interval {
	return Interval{min(i.Estimate, most), min(i.Low, most), min(i.High, most)}
}

// Model describes an istiod as measured by runs: the document model.json.
type Model struct {
	Schema int      `json:"schema"`
	Runs   []Source `json:"runs"`
	// Parameters have 90% intervals from resampled trials.
	Parameters []Fitted `json:"parameters"`
	// Draws holds the parameters of further resamples, in the same order.
	Draws [][]float64 `json:"draws"`
	// Residuals are the errors of predictions, by output.
	Residuals []Residual `json:"residuals"`
	// Measured is the range that the runs' trials cover.
	Measured Span `json:"measured"`
	// Mix counts the changes of these runs by kind.
	Mix map[string]float64 `json:"mix"`
	// Cells compares measurements with predictions.
	Cells []Cell `json:"cells"`
	// HeldOut holds cells excluded from the fit and from the residuals.
	HeldOut []Cell `json:"held_out,omitempty"`
	Notes   []Note `json:"notes,omitempty"`
}

// Source is a run that a model was fitted to.
type Source struct {
	Run     string    `json:"run"` // its ID
	Study   string    `json:"study"`
	Machine string    `json:"machine"` // its CPUs
	Istiod  string    `json:"istiod,omitempty"`
	Trials  int       `json:"trials"` // number used
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
	// Part, On and Usual belong to [WhyMachine]: the part that ran on an unusual machine.
	Part  string `json:"part,omitempty"`
	On    string `json:"on,omitempty"`
	Usual string `json:"usual,omitempty"`
	Level string `json:"level,omitempty"` // for [WhyClients] and [WhyCell]
}

// WhyCode identifies a reason.
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

// NoteCode identifies a limitation.
type NoteCode string

// The limitations of models.
const (
	NoteOneCell     NoteCode = "one_cell"
	NoteOneTrial    NoteCode = "one_trial" // in N of Of cells
	NoteNoP99       NoteCode = "no_p99"    // no p99 of convergence, in N of Of trials
	NoteMachines    NoteCode = "machines"  // N trials on other machines are left out
	NoteIstiodsVary NoteCode = "istiod_versions"
	NoteShared      NoteCode = "shared_machine" // others used much of the machine, in N of Of trials
)

// Fitted is a parameter of a model.
type Fitted struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Meaning string `json:"meaning"`
	Interval
	// Assumed means that the runs do not determine the parameter: they contain no evidence of
	// it, or, if Undivided, determine only its sum with other costs.
	Assumed   bool   `json:"assumed,omitempty"`
	Undivided bool   `json:"undivided,omitempty"`
	Study     string `json:"study,omitempty"` // command of a study that would determine it
}

// Residual is the error of predictions of cells excluded from the fit.
type Residual struct {
	Output string `json:"output"`
	// Spread is the root mean square of ln(measured/predicted).
	Spread float64 `json:"spread"`
	Cells  int     `json:"cells"`
	// Median is the median of |measured/predicted-1|.
	Median float64 `json:"median_error"`
}

// Span is the measured range, smallest and largest.
type Span struct {
	Proxies  [2]float64 `json:"proxies"` // per replica
	Services [2]float64 `json:"services"`
	Rate     [2]float64 `json:"rate"`
	Cores    [2]float64 `json:"cores"`
}

// Cell compares one cell of a run, as the median of its trials, with the prediction of a model
// fitted without it.
type Cell struct {
	Run      string    `json:"run"`
	Cell     string    `json:"cell"`
	Proxies  int       `json:"proxies"`
	Services int       `json:"services"`
	Rate     float64   `json:"rate"`
	Trials   int       `json:"trials"`
	Outputs  []Against `json:"outputs"`
}

// Against compares a measured output with its prediction, with the 90% interval if there is one.
type Against struct {
	Output    string  `json:"output"`
	Unit      string  `json:"unit"`
	Measured  float64 `json:"measured"`
	Predicted float64 `json:"predicted"`
	Low       float64 `json:"low,omitempty"`
	High      float64 `json:"high,omitempty"`
}

// mostOf bounds parameters, so that sums of them stay finite.
const mostOf = 1e15

// Values returns the parameters' estimates.
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

// MaxFile is the largest document that [Parse] accepts.
const MaxFile = 16 << 20

// Parse parses a model's document.
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

// With fewer than fewCells cells, a residual is at least leastSpread, a factor of 1.5.
const (
	fewCells    = 3
	leastSpread = 0.405
)

// residual returns an output's residual, or the widest of all if no cell measured the output.
func (m *Model) residual(output string) Residual {
	switch output { // outputs that were not measured err like those they derive from
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
