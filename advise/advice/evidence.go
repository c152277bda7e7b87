package advice

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Evidence is what is known of a mesh, by where quantities may come from.
type Evidence struct {
	// Source says what was looked at.
	Source string
	Cell   record.Cell // of a run; nil otherwise
	// WindowS is the time that rates are over, seconds.
	WindowS float64
	PromQL  map[string]float64 // by the expression as rules have it
	// Findings are those of the cell that have a value.
	Findings map[string]record.Finding
	// Facts are what a reader of the run or of the cluster knows by itself. Beside
	// them "lever.NAME" is the level of a lever as a number, where it is one.
	Facts map[string]float64
	// Levers are the levels that levers have, as named or as found; Limits what holds
	// parts back.
	Levers, Limits map[string]string
	// Known is what this istiod has; nil where nobody asked it.
	Known *variables.Known
	// Effects are what the run itself measured of levers at other levels.
	Effects []Measured
	// Deployment is istiod's; "" for "istiod" of its usual namespace.
	Deployment string
	// Root is the mesh's root namespace; "" where that is not known.
	Root string
	// Doubt says why all of it is weaker than it looks; "" where nothing does.
	Doubt string
	// Notes say what could not be read.
	Notes []string
}

// Measured is what a run measured of setting one lever, all else being equal.
type Measured struct {
	Lever, Level string
	Finding      record.Finding // a difference, against this cell
}

// Value is a quantity with where it comes from.
type Value struct {
	Name   string  `json:"name"`
	Words  string  `json:"words"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Source string  `json:"source"`
}

// Gap is a quantity that is not known.
type Gap struct {
	Name    string `json:"name"`
	Words   string `json:"words"`
	Measure string `json:"measure"` // how to get it
	// Absent are metrics that the source does not have, Never those of them that this
	// version of istiod does not export at all.
	Absent []string `json:"absent_metrics,omitempty"`
	Never  []string `json:"metrics_not_of_this_version,omitempty"`
}

// resolved is all quantities of a table.
type resolved struct {
	scope
	values map[string]Value
	rules  *Rules
	of     *Evidence
}

// resolve finds each quantity's value, in the order of the table.
func (r *Rules) resolve(e *Evidence) (*resolved, error) {
	out := &resolved{scope: scope{numbers: map[string]float64{}, texts: map[string]map[string]string{varLevers: e.Levers, varLimits: e.Limits}},
		values: map[string]Value{}, rules: r, of: e}
	for _, q := range r.Quantities {
		for _, o := range q.From {
			v, source, ok, err := out.origin(o)
			if err != nil {
				return nil, err
			}
			if ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
				out.numbers[q.Name] = v
				out.values[q.Name] = Value{q.Name, q.Words, v, q.Unit, source}
				break
			}
		}
	}
	return out, nil
}

// leverFact begins the facts that are levers' levels.
const leverFact = "lever."

func (r *resolved) origin(o Origin) (v float64, source string, ok bool, err error) {
	switch {
	case o.PromQL != "":
		v, ok = r.of.PromQL[o.PromQL]
		return v, "istiod's metrics", ok, nil
	case o.Finding != "":
		f, ok := r.of.Findings[o.Finding]
		return f.Estimate, "finding " + o.Finding, ok, nil
	case len(o.Fact) > len(leverFact) && o.Fact[:len(leverFact)] == leverFact:
		name := o.Fact[len(leverFact):]
		f, known := study.LeverByName(name)
		if known {
			v, ok = f.Value(r.of.Levers[name])
		}
		return v, "lever " + name, ok, nil
	case o.Fact != "":
		v, ok = r.of.Facts[o.Fact]
		return v, "as read", ok, nil
	}
	v, ok, err = r.number(o.CEL)
	return v, "calculated", ok, err
}

// gaps are the quantities that are missing for an expression: of those that are
// calculated, what they lack. Levels and limits count as quantities.
func (r *resolved) gaps(e *expr) []Gap {
	var out []Gap
	seen := map[string]bool{}
	var visit func(names []string)
	visit = func(names []string) {
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			q, ok := r.rules.Quantity(name)
			if !ok {
				out = append(out, Gap{Name: name, Words: name, Measure: measureOf(name)})
				continue
			}
			var of []string
			for _, o := range q.From {
				if o.CEL != nil {
					of = append(of, r.lacks(o.CEL)...)
				}
			}
			if len(of) == 0 {
				out = append(out, r.gap(q))
			}
			visit(of)
		}
	}
	visit(r.lacks(e))
	return out
}

// measureOf says how levels and limits are had.
func measureOf(name string) string {
	if name[:len(varLimits)] == varLimits {
		return "run a data-plane study with measure threads"
	}
	return "read istiod's settings: meshtrial advise of a running istiod, or a run that records its levers"
}

func (r *resolved) gap(q Quantity) Gap {
	g := Gap{Name: q.Name, Words: q.Words, Measure: q.Measure}
	for _, o := range q.From {
		for _, name := range metricsOf(o.PromQL) {
			if k := r.of.Known; k != nil && len(k.Metrics) > 0 && istiodsOwn(name) && !exports(k, name) && !slices.Contains(g.Never, name) {
				g.Never = append(g.Never, name)
			}
			if !slices.Contains(g.Absent, name) {
				g.Absent = append(g.Absent, name)
			}
		}
	}
	return g
}

// istiodsOwn tells metrics that an istiod's reference would list.
func istiodsOwn(name string) bool { return len(name) > 6 && name[:6] == "pilot_" }

// exports reports whether this version exports a metric, or the histogram that a
// series is of.
func exports(k *variables.Known, name string) bool {
	return slices.ContainsFunc(k.Metrics, func(m variables.Metric) bool {
		return name == m.Name || name == m.Name+"_sum" || name == m.Name+"_count" || name == m.Name+"_bucket"
	})
}

// metricsOf lists the metrics that an expression in PromQL reads.
func metricsOf(promql string) []string {
	if promql == "" {
		return nil
	}
	parsed, err := newParser().ParseExpr(expand(promql))
	if err != nil {
		return nil
	}
	var out []string
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && s.Name != "" {
			out = append(out, s.Name)
		}
		return nil
	})
	return out
}
