package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/yamltree"
)

// Request is a mesh and what is wanted of its control plane: a file mesh.yaml.
type Request struct {
	Mesh    model.Mesh
	Targets Targets
	Bounds  Bounds
}

// Targets are what a plan must meet.
type Targets struct {
	ConvergenceP99 float64 // seconds
	CPU            float64 // share of the CPUs in use at most
	Survives       int     // replicas that may be lost
	Reconnect      float64 // seconds until the proxies of a lost replica are back; 0: any
	Growth         float64 // how many times as many proxies the autoscaler must be able to serve
}

// Bounds are what a plan may use.
type Bounds struct {
	MinReplicas, MaxReplicas int
	MaxCores                 float64 // of a replica
}

// MaxFile is the largest file that [Parse] takes.
const MaxFile = 256 << 10

var format = yamltree.Format{What: "mesh file", Bytes: MaxFile, Tokens: 4000, Values: 2000, Depth: 8}

// Default is a request as far as it has defaults.
func Default() Request {
	return Request{Mesh: model.Default(), Targets: Targets{ConvergenceP99: 5, CPU: 0.7, Survives: 1, Growth: 2}, Bounds: Bounds{MinReplicas: 2, MaxReplicas: 20, MaxCores: 16}}
}

// Parse reads a mesh file. Errors name the place.
func Parse(data []byte, name string) (Request, error) {
	r := Default()
	tree, failed := yamltree.Read(data, format)
	if failed != nil {
		return r, errs.WithHint(errs.Usage("%s:%s", name, failed.Error()), "%s", failed.Hint)
	}
	p := &parser{name: name}
	if tree == nil {
		return r, errs.WithHint(errs.Usage("%s: nothing is in it", name), "%s", hint)
	}
	given := map[string]bool{}
	p.mapping(tree, "", r.fields(given))
	for _, field := range []string{"proxies", "services"} {
		if !given[field] {
			p.fail(tree, "%s is missing", field)
		}
	}
	if !given["rate"] {
		p.fail(tree, "changes.rate is missing")
	}
	if len(p.errs) == 0 && r.Bounds.MaxReplicas < r.Bounds.MinReplicas {
		p.fail(tree, "istiod.max_replicas is %d, fewer than min_replicas, %d", r.Bounds.MaxReplicas, r.Bounds.MinReplicas)
	}
	if len(p.errs) == 0 && r.Targets.Survives >= r.Bounds.MaxReplicas {
		p.fail(tree, "targets.survives is %d: of %d replicas none would be left", r.Targets.Survives, r.Bounds.MaxReplicas)
	}
	if len(p.errs) > 0 {
		return r, errs.WithHint(errs.WithCode(errors.Join(p.errs...), errs.CodeUsage), "%s", hint)
	}
	return r, nil
}

const hint = "a mesh file is as\nproxies: 5000\nservices: 2000\nchanges: {rate: 1, mix: {endpoints: 9, configuration: 1}}\ntargets: {convergence_p99: 5s, survives: 1}"

// field reads a value of a mapping.
type field struct {
	name string
	read func(p *parser, n *yamltree.Node, path string)
}

type parser struct {
	name string
	errs []error
}

func (p *parser) fail(n *yamltree.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d:%d: %s", p.name, n.Line, n.Column, fmt.Sprintf(format, args...)))
}

func (p *parser) mapping(n *yamltree.Node, path string, fields []field) {
	if n.Kind != yamltree.Mapping {
		p.fail(n, "%s is %s, not a mapping", strings.TrimSuffix(orFile(path), "."), n.Kind)
		return
	}
	seen := map[string]bool{}
	for i, key := range n.Keys {
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Text })
		switch {
		case at < 0:
			var names []string
			for _, f := range fields {
				names = append(names, f.name)
			}
			p.fail(key, "%s%s is no field: %s", path, clip(key.Text), errs.Suggest(key.Text, names))
		case seen[key.Text]:
			p.fail(key, "%s%s stands twice", path, key.Text)
		default:
			seen[key.Text] = true
			fields[at].read(p, n.Values[i], path+key.Text)
		}
	}
}

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func clip(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "..."
	}
	return s
}

// fields are those of a mesh file; given notes which are there.
func (r *Request) fields(given map[string]bool) []field {
	noted := func(f field) field {
		read := f.read
		f.read = func(p *parser, n *yamltree.Node, path string) {
			given[f.name] = true
			read(p, n, path)
		}
		return f
	}
	m := &r.Mesh
	return []field{
		noted(whole("proxies", &m.Proxies, 1, 1_000_000)),
		noted(whole("services", &m.Services, 0, 1_000_000)),
		share("visible", &m.Visible, 0.001, 1),
		whole("namespaces", &m.Namespaces, 1, 100_000),
		section("changes", []field{
			noted(number("rate", &m.Rate, 1e-4, 1e4)),
			word("arrival", &m.Arrival, "poisson", "uniform", "burst"),
			whole("burst", &m.Burst, 0, 100_000),
			{"mix", func(p *parser, n *yamltree.Node, path string) { p.mix(n, path, m) }},
		}),
		section("targets", []field{
			duration("convergence_p99", &r.Targets.ConvergenceP99, 0.01, 3600),
			share("cpu", &r.Targets.CPU, 0.05, 1),
			whole("survives", &r.Targets.Survives, 0, 100),
			duration("reconnect", &r.Targets.Reconnect, 0, 3600),
			number("growth", &r.Targets.Growth, 1, 100),
		}),
		section("istiod", []field{
			whole("min_replicas", &r.Bounds.MinReplicas, 1, 500),
			whole("max_replicas", &r.Bounds.MaxReplicas, 1, 500),
			number("max_cores", &r.Bounds.MaxCores, ladder[0], ladder[len(ladder)-1]),
			duration("debounce_after", &m.DebounceAfter, 0, 600),
			duration("debounce_max", &m.DebounceMax, 0, 3600),
			whole("push_throttle", &m.Throttle, 0, 10_000),
			number("request_limit", &m.ConnectLimit, 0, 1e6),
			duration("connection_age", &m.ConnectionAge, 0, 1e8),
		}),
		section("slow", []field{
			share("share", &m.Slow, 0, 1),
			number("bytes_per_second", &m.SlowRead, 1, 1e12),
		}),
	}
}

func section(name string, fields []field) field {
	return field{name, func(p *parser, n *yamltree.Node, path string) { p.mapping(n, path+".", fields) }}
}

// scalar reads a text and says what is wrong with it, naming the bounds.
func scalar(name string, read func(text string) error) field {
	return field{name, func(p *parser, n *yamltree.Node, path string) {
		if n.Kind != yamltree.Scalar {
			p.fail(n, "%s is %s, not a value", path, n.Kind)
			return
		}
		if err := read(n.Text); err != nil {
			p.fail(n, "%s is %s: %v", path, clip(n.Text), err)
		}
	}}
}

func between(v, low, high float64, to *float64) error {
	if math.IsNaN(v) || v < low || v > high {
		return fmt.Errorf("from %g to %g is possible", low, high)
	}
	*to = v
	return nil
}

func whole(name string, to *int, low, high int) field {
	return scalar(name, func(text string) error {
		v, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
		if err != nil || v < low || v > high {
			return fmt.Errorf("a whole number from %d to %d is possible", low, high)
		}
		*to = v
		return nil
	})
}

func number(name string, to *float64, low, high float64) field {
	return scalar(name, func(text string) error {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errors.New("that is no number")
		}
		return between(v, low, high, to)
	})
}

func share(name string, to *float64, low, high float64) field {
	return scalar(name, func(text string) error {
		number, percent := strings.CutSuffix(text, "%")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return errors.New("a share is as 20% or 0.2")
		}
		if percent {
			v /= 100
		}
		return between(v, low, high, to)
	})
}

func duration(name string, to *float64, low, high float64) field {
	return scalar(name, func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("a time is as 5s or 100ms")
		}
		return between(d.Seconds(), low, high, to)
	})
}

func word(name string, to *string, words ...string) field {
	return scalar(name, func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("%s are possible", strings.Join(words, ", "))
		}
		*to = text
		return nil
	})
}

func (p *parser) mix(n *yamltree.Node, path string, m *model.Mesh) {
	if n.Kind != yamltree.Mapping || len(n.Keys) == 0 {
		p.fail(n, "%s is %s, not a mapping of kinds of change to weights", path, n.Kind)
		return
	}
	m.Mix = map[string]float64{}
	total := 0.0
	for i, key := range n.Keys {
		if _, ok := model.KindOf(key.Text); !ok {
			p.fail(key, "%s.%s is no kind of change: %s", path, clip(key.Text), errs.Suggest(key.Text, model.KindNames()))
			continue
		}
		weight := 0.0
		number(key.Text, &weight, 0, 1e6).read(p, n.Values[i], path+"."+key.Text)
		m.Mix[key.Text] = weight
		total += weight
	}
	if total == 0 && len(p.errs) == 0 {
		p.fail(n, "%s gives no kind of change any weight", path)
	}
}
