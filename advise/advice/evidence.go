package advice

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
)

// Evidence is what is known about a mesh, by source.
type Evidence struct {
	// Source says what was read.
	Source string
	Cell   record.Cell // the run's cell; nil if there is no run
	// WindowS is the window of rates, in seconds.
	WindowS float64
	// Metrics holds the answers to the quantities' queries, Facts what the reader of the run
	// or of the cluster observed itself.
	Metrics, Facts map[*Quantity]float64
	// Findings holds the cell's findings that have a value, by name.
	Findings map[string]record.Finding
	// Levers holds the levels of levers, as named or as found. Limits says what limits each
	// part of a data plane: record.LimitConcurrency and so on, or "none".
	Levers, Limits map[string]string
	// Known describes this istiod's settings and metrics; nil if its program was not asked.
	Known *variables.Known
	// Effects are the run's own measurements of levers at other levels.
	Effects []Measured
	// Deployment is istiod's, and Root the mesh's root namespace; "" means the usual ones.
	Deployment, Root string
	// Doubt says why all evidence is weaker than it looks; "" if it is not.
	Doubt string
	// Notes describes what could not be read.
	Notes []string
}

// Measured is what a run measured of changing one lever while the others stayed the same.
type Measured struct {
	Lever   string         `json:"lever"`
	Level   string         `json:"level"`
	Finding record.Finding `json:"finding"` // the difference from this cell
}

// Value is a quantity and its source.
type Value struct {
	Name   string  `json:"name"`
	Words  string  `json:"words"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Source string  `json:"source"`
}

// Gap is an unknown quantity, lever level or limit of a part.
type Gap struct {
	Name    string `json:"name"`
	Words   string `json:"words"`
	Measure string `json:"measure"` // how to get it
	// Absent lists metrics that the source does not have, Never those of them that this
	// version of istiod never exports.
	Absent []string `json:"absent_metrics,omitempty"`
	Never  []string `json:"metrics_not_of_this_version,omitempty"`
}

// mesh presents evidence to conditions and formulas, and records what they read.
type mesh struct {
	evidence *Evidence
	values   map[*Quantity]Value
	// inputs holds what the formula of each calculated quantity read.
	inputs map[*Quantity][]reading
	reads  []reading
}

// reading is one read item: a quantity, or else a lever's level or a part's limit.
type reading struct {
	name     string
	quantity *Quantity
	measure  string // for levels and limits
	known    bool
}

// resolve determines the value of each quantity.
func resolve(e *Evidence) *mesh {
	m := &mesh{evidence: e, values: map[*Quantity]Value{}, inputs: map[*Quantity][]reading{}}
	for _, q := range quantities {
		if v, source := m.resolve(q); known(v) {
			m.values[q] = Value{q.Name, q.Words, v, q.Unit, source}
		}
	}
	return m
}

// resolve takes a quantity from the first source that has it.
func (m *mesh) resolve(q *Quantity) (v float64, source string) {
	var formula float64
	if q.Formula != nil {
		formula, m.inputs[q] = m.number(q.Formula)
	}
	if f, ok := m.evidence.Findings[q.Finding]; ok && known(f.Estimate) {
		return f.Estimate, "finding " + q.Finding
	}
	if v, ok := m.evidence.Facts[q]; ok && known(v) {
		return v, "as read"
	}
	if f, ok := controlplane.LeverByName(q.Lever); ok {
		if v, ok := f.Value(m.evidence.Levers[q.Lever]); ok && known(v) {
			return v, "lever " + q.Lever
		}
	}
	if v, ok := m.evidence.Metrics[q]; ok && known(v) {
		return v, "istiod's metrics"
	}
	if q.Formula != nil {
		return formula, "calculated"
	}
	return unknown, ""
}

// get reads a quantity.
func (m *mesh) get(q *Quantity) float64 {
	v, ok := m.values[q]
	m.read(reading{name: q.Name, quantity: q, known: ok})
	if !ok {
		return unknown
	}
	return v.Value
}

// leverIs reads whether a lever is at a level.
func (m *mesh) leverIs(lever, level string) Truth {
	return m.textIs("levers."+lever, m.evidence.Levers, lever, level,
		"read istiod's settings: meshtrial assess limits of a running istiod, or a run that records its levers")
}

// limitedBy reads whether the client's or the server's sidecar is limited by limit.
func (m *mesh) limitedBy(limit string) Truth {
	is := func(part string) Truth {
		return m.textIs("limits."+part, m.evidence.Limits, part, limit, "run a data-plane study with measure threads")
	}
	return either(is(record.PartClientProxy), is(record.PartServerProxy))
}

func (m *mesh) textIs(name string, texts map[string]string, key, want, measure string) Truth {
	got, ok := texts[key]
	m.read(reading{name: name, measure: measure, known: ok})
	switch {
	case !ok:
		return Unknown
	case got == want:
		return True
	}
	return False
}

func (m *mesh) read(r reading) {
	if !slices.ContainsFunc(m.reads, func(had reading) bool { return had.name == r.name }) {
		m.reads = append(m.reads, r)
	}
}

// truth evaluates a condition and returns what it read.
func (m *mesh) truth(condition func(*mesh) Truth) (Truth, []reading) {
	m.reads = nil
	t := condition(m)
	return t, m.reads
}

// number evaluates a formula and returns what it read.
func (m *mesh) number(formula func(*mesh) float64) (float64, []reading) {
	m.reads = nil
	v := formula(m)
	return v, m.reads
}

// shown returns the known quantities among some.
func (m *mesh) shown(of []*Quantity) []Value {
	var out []Value
	for _, q := range of {
		if v, ok := m.values[q]; ok {
			out = append(out, v)
		}
	}
	return out
}

// seen returns the known quantities among those read.
func (m *mesh) seen(reads []reading) []Value {
	var out []Value
	for _, r := range reads {
		if r.quantity != nil && r.known {
			out = append(out, m.values[r.quantity])
		}
	}
	return out
}

// gaps returns what is unknown among the readings; for a calculated quantity, what its
// formula lacks.
func (m *mesh) gaps(reads []reading) []Gap {
	var out []Gap
	visited := map[string]bool{}
	var visit func([]reading)
	visit = func(reads []reading) {
		for _, r := range reads {
			if r.known || visited[r.name] {
				continue
			}
			visited[r.name] = true
			if r.quantity == nil {
				out = append(out, Gap{Name: r.name, Words: r.name, Measure: r.measure})
				continue
			}
			inputs := m.inputs[r.quantity]
			if !slices.ContainsFunc(inputs, func(i reading) bool { return !i.known }) {
				out = append(out, m.gap(r.quantity))
			}
			visit(inputs)
		}
	}
	visit(reads)
	return out
}

func (m *mesh) gap(q *Quantity) Gap {
	g := Gap{Name: q.Name, Words: q.Words, Measure: q.Measure, Absent: metricsIn(q.Query)}
	if k := m.evidence.Known; k != nil && len(k.Metrics) > 0 {
		for _, name := range g.Absent {
			if k.Lacks(name) {
				g.Never = append(g.Never, name)
			}
		}
	}
	return g
}

// metricsIn lists the distinct metrics that a query reads.
func metricsIn(query string) []string {
	if query == "" {
		return nil
	}
	parsed, err := newParser().ParseExpr(placeholders.Replace(query))
	if err != nil {
		return nil
	}
	var out []string
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && s.Name != "" && !slices.Contains(out, s.Name) {
			out = append(out, s.Name)
		}
		return nil
	})
	return out
}

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }
