package model

import (
	"encoding/json"
	"fmt"
)

// Schema of a model's document.
const Schema = 3

// Interval is an estimate with the bounds of its interval.
type Interval struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Known tells whether it is an interval: one whose ends are the estimate says nothing of
// how sure that is.
func (i Interval) Known() bool { return i.Low < i.High }

// upTo is an interval of what cannot be more than some.
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
	HeldOut []Cell   `json:"held_out,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Source is a run that a model was fitted to.
type Source struct {
	Run     string   `json:"run"` // its id
	Study   string   `json:"study"`
	Machine string   `json:"machine"` // its CPUs
	Istiod  string   `json:"istiod,omitempty"`
	Trials  int      `json:"trials"` // that were used
	Left    []string `json:"left_out,omitempty"`
}

// Fitted is a parameter of a model.
type Fitted struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Meaning string `json:"meaning"`
	Interval
	// Assumed says that the runs do not tell; Why, and Study which command
	// would.
	Assumed bool   `json:"assumed,omitempty"`
	Why     string `json:"why,omitempty"`
	Study   string `json:"study,omitempty"`
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

// mostOf bounds parameters: no istiod takes as many seconds or bytes for anything, and
// sums of such are still numbers.
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
		return nil, fmt.Errorf("this is no model: %w", err)
	}
	if m.Schema != Schema {
		return nil, fmt.Errorf("the model's schema is %d, and this program reads %d: fit the model again from its runs", m.Schema, Schema)
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

// Assumptions are the parameters that the runs do not tell.
func (m *Model) Assumptions() []Fitted {
	var out []Fitted
	for _, p := range m.Parameters {
		if p.Assumed {
			out = append(out, p)
		}
	}
	return out
}

// fewCells is how many cells it takes to know how far predictions are off; with
// fewer the residual is leastSpread at least: half as much again, or two thirds.
const (
	fewCells    = 3
	leastSpread = 0.405
)

// residual is that of an output; of one that no cell measured the widest of
// all.
func (m *Model) residual(output string) Residual {
	switch output { // what nobody measures errs as what it is made of
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
