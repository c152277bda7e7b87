package assess

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/stat/money"
)

// Against is what changed since an earlier assessment of the same mesh.
type Against struct {
	At      time.Time `json:"at"`     // of the earlier one
	Source  string    `json:"source"` // of the earlier one: another is another mesh
	Figures []Change  `json:"figures"`
	// Came are rules of advice that hold now and did not, Went those that held.
	Came []string `json:"rules_came,omitempty"`
	Went []string `json:"rules_went,omitempty"`
	// ProblemsCame and ProblemsWent are known problems of the versions, likewise.
	ProblemsCame []string `json:"problems_came,omitempty"`
	ProblemsWent []string `json:"problems_went,omitempty"`
	// Changed are istiod's version and settings, and stated prices, that differ.
	Changed []Changed `json:"changed,omitempty"`
}

// Changed is a version, a setting or a stated price; "" is unknown, or of a setting Istio's default.
type Changed struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Trend says whether a change of a figure is for the better; "" if it is neither, or too small to say.
type Trend string

// Trends.
const (
	Better Trend = "better"
	Worse  Trend = "worse"
)

// changeTold is the smallest ratio of two costs that is reported: smaller ones may be chance.
const changeTold = 1.1

// Change is a figure that both assessments know.
type Change struct {
	Name string  `json:"name"`
	Kind Kind    `json:"kind,omitempty"`
	Unit string  `json:"unit"`
	Old  float64 `json:"old"`
	New  float64 `json:"new"`
	// Costs says that more of it is worse.
	Costs bool  `json:"costs,omitempty"`
	Trend Trend `json:"trend,omitempty"`
}

// trendOf says nothing of figures whose intervals overlap. Those of a line may be below zero.
func trendOf(f, old Figure) Trend {
	least := (1 - 1/changeTold) * max(math.Abs(f.Value), math.Abs(old.Value))
	overlap := f.within != nil && old.within != nil && f.within.Low <= old.within.High && old.within.Low <= f.within.High
	switch {
	case !f.costs || overlap:
	case f.Value-old.Value > least:
		return Worse
	case old.Value-f.Value > least:
		return Better
	}
	return ""
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
	FigureMonth    = "month"
	FigureL7       = "l7"
	// FigureConvergence is istiod's own, from the end of debouncing until configuration was sent.
	FigureConvergence = "convergence"
	// Costs of each proxy, or replica of istiod, and of the load of all of a kind: see [Assessment.load].
	FigureCoresEach = "cores_each"
	FigureCoresLoad = "cores_by_load"
	FigureBytesEach = "memory_each"
	FigureBytesLoad = "memory_by_load"
)

// Names of stated prices in [Changed].
const (
	ChangedCore     = "core_month"
	ChangedGB       = "gb_month"
	ChangedCurrency = "currency"
)

// byLoad are costs that depend on how much there is to do. A mesh with more requests takes more CPU for each proxy,
// and one with fewer takes more for each request: only if both change in one direction, that is for the better or
// the worse.
var byLoad = map[string]string{FigureCoresEach: FigureCoresLoad, FigureBytesEach: FigureBytesLoad}

// Figure is a figure of an assessment.
type Figure struct {
	Name  string
	Kind  Kind
	Unit  string // "" for a number of things
	costs bool   // more of it is worse
	Value float64
	// within is its interval; nil for one without.
	within *money.Value
}

// Figures are those that are known whole: of kinds of which all were measured.
func (a *Assessment) Figures() (out []Figure) {
	for _, kind := range Kinds {
		if n := a.Mesh.Count(kind); n > 0 {
			out = append(out, Figure{FigureCount, kind, "", false, float64(n), nil})
		}
	}
	for _, u := range a.Cost.Uses {
		if u.Measured < u.Count {
			continue
		}
		out = append(out, Figure{FigureCores, u.Kind, "cores", false, u.Used.Cores, nil}, Figure{FigureMemory, u.Kind, "bytes", false, u.Used.Bytes, nil})
		if u.Reserved > 0 {
			out = append(out, Figure{FigureMonth, u.Kind, a.Cost.Prices.Currency, false, u.Reserved, nil})
		}
		each := 1 / float64(u.Count)
		out = append(out, Figure{FigureCoresEach, u.Kind, "cores", true, each * u.Used.Cores, nil}, Figure{FigureBytesEach, u.Kind, "bytes", true, each * u.Used.Bytes, nil})
		if load := a.load(u.Kind); load > 0 {
			out = append(out, Figure{FigureCoresLoad, u.Kind, "cores", true, 1000 / load * u.Used.Cores, nil})
			if u.Kind == Istiod { // memory of proxies does not depend on their requests
				out = append(out, Figure{FigureBytesLoad, u.Kind, "bytes", true, 1000 / load * u.Used.Bytes, nil})
			}
		}
	}
	if a.Traffic.whole() {
		out = append(out, Figure{FigureRequests, "", "1/s", false, a.Traffic.Called, nil})
	}
	if t := a.Traffic; t.whole() && t.Routed != nil {
		out = append(out, Figure{FigureL7, "", "ratio", false, *t.Routed, nil})
	}
	if v, known := a.convergence(); known {
		out = append(out, Figure{FigureConvergence, "", "s", true, v, nil})
	}
	if v := a.Cost.Idle; v != nil {
		out = append(out, Figure{FigureIdle, Sidecar, "cores", true, v.Estimate, v})
	}
	if v := a.Cost.Each; v != nil {
		out = append(out, Figure{FigureEach, Sidecar, "cores", true, 1000 * v.Estimate, &money.Value{Estimate: 1000 * v.Estimate, Low: 1000 * v.Low, High: 1000 * v.High}})
	}
	if c := a.Configuration; c != nil && len(c.Held.Proxies) > 0 {
		out = append(out, Figure{FigureConfig, Sidecar, "bytes", true, float64(c.Held.DumpBytes) / float64(len(c.Held.Proxies)), nil})
	}
	if n, ok := a.Mesh.Objects["Service"]; ok {
		out = append(out, Figure{FigureServices, "", "", false, float64(n), nil})
	}
	return out
}

// load is what all of a kind have to do: requests per second that pass proxies, or proxies that are connected to
// istiod; 0 if unknown.
func (a *Assessment) load(kind Kind) float64 {
	switch t := a.Traffic; {
	case kind == Istiod:
		n, _ := a.quantity(advice.QuantityProxies)
		return n
	case kind == Sidecar && t.whole():
		return t.Called + t.Served
	case t != nil:
		for _, x := range t.Through {
			if x.Kind == kind && x.Read == x.Count {
				return x.PerS
			}
		}
	}
	return 0
}

// convergence is istiod's p99.
func (a *Assessment) convergence() (float64, bool) { return a.quantity("push_p99") }

// quantity is one that istiod's metrics tell.
func (a *Assessment) quantity(name string) (value float64, known bool) {
	if a.Limits == nil {
		return 0, false
	}
	i := slices.IndexFunc(a.Limits.Values, func(v advice.Value) bool { return v.Name == name })
	if i < 0 {
		return 0, false
	}
	return a.Limits.Values[i].Value, true
}

// Compare sets the assessment beside an earlier one of the same mesh.
func (a *Assessment) Compare(old Assessment) {
	out := Against{At: old.At, Source: old.Source, Figures: []Change{}}
	before := old.Figures()
	for _, f := range a.Figures() {
		i := slices.IndexFunc(before, func(b Figure) bool { return b.Name == f.Name && b.Kind == f.Kind && b.Unit == f.Unit })
		if i >= 0 {
			out.Figures = append(out.Figures, Change{f.Name, f.Kind, f.Unit, before[i].Value, f.Value, f.costs, trendOf(f, before[i])})
		}
	}
	agree(out.Figures)
	if a.Limits != nil && old.Limits != nil {
		// What one of them could not decide neither came nor went.
		out.Came = without(rules(a.Limits.Advice), rules(old.Limits.Advice, old.Limits.Undecided))
		out.Went = without(rules(old.Limits.Advice), rules(a.Limits.Advice, a.Limits.Undecided))
	}
	had, have := codes(old.Mesh.Problems), codes(a.Mesh.Problems)
	out.ProblemsCame, out.ProblemsWent = without(have, had), without(had, have)
	if a.Mesh.Istiod != old.Mesh.Istiod {
		out.Changed = append(out.Changed, Changed{"istiod", old.Mesh.Istiod, a.Mesh.Istiod})
	}
	if a.Limits != nil && old.Limits != nil { // istiod's settings were read
		out.Changed = append(out.Changed, changedLevels(old.Mesh.Settings, a.Mesh.Settings)...)
	}
	if then, now := old.Cost.Prices, a.Cost.Prices; then.Stated() && now.Stated() {
		for _, price := range []struct {
			name     string
			old, new float64
		}{{ChangedCore, then.Core, now.Core}, {ChangedGB, then.GB, now.GB}} {
			if price.old != price.new {
				out.Changed = append(out.Changed, Changed{price.name, priceText(price.old), priceText(price.new)})
			}
		}
		if then.Currency != now.Currency {
			out.Changed = append(out.Changed, Changed{ChangedCurrency, then.Currency, now.Currency})
		}
	}
	a.Against = &out
}

func priceText(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// agree takes trends back that another figure of the same cost contradicts, or that it would have to confirm and
// is unknown: see [byLoad].
func agree(figures []Change) {
	for i, each := range figures {
		other, depends := byLoad[each.Name]
		if !depends || each.Name == FigureBytesEach && each.Kind != Istiod {
			continue
		}
		j := slices.IndexFunc(figures, func(c Change) bool { return c.Name == other && c.Kind == each.Kind })
		if j < 0 {
			figures[i].Trend = ""
		} else if figures[j].Trend != each.Trend {
			figures[i].Trend, figures[j].Trend = "", ""
		}
	}
}

// without are the texts in one list and not in another.
func without(one, other []string) []string {
	out := slices.DeleteFunc(slices.Clone(one), func(s string) bool { return slices.Contains(other, s) })
	slices.Sort(out)
	return slices.Compact(out)
}

func codes(problems []KnownProblem) (out []string) {
	for _, p := range problems {
		out = append(out, p.Code)
	}
	return out
}

func rules(judgements ...[]advice.Judgement) (out []string) {
	for _, j := range slices.Concat(judgements...) {
		out = append(out, j.Rule)
	}
	return out
}

// changedLevels are settings with other levels than before.
func changedLevels(old, now []Setting) (out []Changed) {
	level := func(all []Setting, name string) string {
		if i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name }); i >= 0 {
			return all[i].Level
		}
		return ""
	}
	seen := map[string]bool{}
	for _, s := range slices.Concat(old, now) {
		was, is := level(old, s.Name), level(now, s.Name)
		if !seen[s.Name] && was != is {
			out = append(out, Changed{s.Name, was, is})
		}
		seen[s.Name] = true
	}
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
