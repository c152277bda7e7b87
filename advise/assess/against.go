package assess

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
)

// Against is what changed since an earlier assessment of the same mesh.
type Against struct {
	At      time.Time `json:"at"`     // of the earlier one
	Source  string    `json:"source"` // of the earlier one: another is another mesh
	Figures []Change  `json:"figures"`
	// Came are rules of advice that hold now and did not, Went those that held.
	Came []string `json:"rules_came,omitempty"`
	Went []string `json:"rules_went,omitempty"`
}

// Change is a figure that both assessments know.
type Change struct {
	Name string  `json:"name"`
	Kind Kind    `json:"kind,omitempty"`
	Unit string  `json:"unit"`
	Old  float64 `json:"old"`
	New  float64 `json:"new"`
	// Costs says that more of it is worse.
	Costs bool `json:"costs,omitempty"`
}

// Names of figures that are compared.
const (
	FigureCount    = "count"
	FigureCores    = "cores"
	FigureMemory   = "memory"
	FigureRequests = "requests"
	FigureIdle     = "idle"
	FigureEach     = "each"
	FigureConfig   = "configuration"
	FigureServices = "services"
)

// figure is a figure of one assessment.
type figure struct {
	name  string
	kind  Kind
	unit  string
	costs bool
	value float64
}

// figures are those that are known whole: of kinds of which all were measured.
func (a *Assessment) figures() (out []figure) {
	for _, kind := range Kinds {
		if n := a.Mesh.Count(kind); n > 0 {
			out = append(out, figure{FigureCount, kind, "", false, float64(n)})
		}
	}
	for _, u := range a.Cost.Uses {
		if u.Measured == u.Count {
			out = append(out, figure{FigureCores, u.Kind, "cores", true, u.Used.Cores}, figure{FigureMemory, u.Kind, "bytes", true, u.Used.Bytes})
		}
	}
	if a.Traffic.whole() {
		out = append(out, figure{FigureRequests, "", "1/s", false, a.Traffic.Called})
	}
	if v := a.Cost.Idle; v != nil {
		out = append(out, figure{FigureIdle, Sidecar, "cores", true, v.Estimate})
	}
	if v := a.Cost.Each; v != nil {
		out = append(out, figure{FigureEach, Sidecar, "cores", true, 1000 * v.Estimate})
	}
	if c := a.Configuration; c != nil && len(c.Held.Proxies) > 0 {
		out = append(out, figure{FigureConfig, Sidecar, "bytes", true, float64(c.Held.DumpBytes) / float64(len(c.Held.Proxies))})
	}
	if n, ok := a.Mesh.Objects["Service"]; ok {
		out = append(out, figure{FigureServices, "", "", false, float64(n)})
	}
	return out
}

// Compare sets the assessment beside an earlier one of the same mesh.
func (a *Assessment) Compare(old Assessment) {
	out := Against{At: old.At, Source: old.Source, Figures: []Change{}}
	before := old.figures()
	for _, f := range a.figures() {
		i := slices.IndexFunc(before, func(b figure) bool { return b.name == f.name && b.kind == f.kind })
		if i >= 0 {
			out.Figures = append(out.Figures, Change{f.name, f.kind, f.unit, before[i].value, f.value, f.costs})
		}
	}
	if a.Limits != nil && old.Limits != nil {
		out.Came, out.Went = without(a.Limits, old.Limits), without(old.Limits, a.Limits)
	}
	a.Against = &out
}

// without are the rules that hold in one report and not in another.
func without(one, other *advice.Report) (out []string) {
	for _, j := range one.Advice {
		if !slices.ContainsFunc(other.Advice, func(o advice.Judgement) bool { return o.Rule == j.Rule }) {
			out = append(out, j.Rule)
		}
	}
	slices.Sort(out)
	return out
}

// MaxFile is the longest document that [Parse] takes, in bytes.
const MaxFile = 64 << 20

// Parse reads an assessment's document.
func Parse(data []byte) (a Assessment, err error) {
	if len(data) > MaxFile {
		return a, fmt.Errorf("%d bytes are more than an assessment may have (%d)", len(data), MaxFile)
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("not an assessment: %w", err)
	}
	if a.Schema != Schema {
		return a, fmt.Errorf("the assessment has schema %d, and this version reads %d", a.Schema, Schema)
	}
	if c := a.Configuration; c != nil && c.Held == nil {
		return a, errors.New("the assessment has a configuration without what is held")
	}
	return a, nil
}
