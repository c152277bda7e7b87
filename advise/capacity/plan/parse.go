package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/yamltree"
)

// Request is a mesh file: a mesh, and the targets and bounds of its control plane.
type Request struct {
	Mesh    model.Mesh `json:"mesh"`
	Targets Targets    `json:"targets"`
	Bounds  Bounds     `json:"bounds"`
}

// Targets are what a plan must meet.
type Targets struct {
	ConvergenceP99 float64 `json:"convergence_p99"` // seconds
	CPU            float64 `json:"cpu"`             // largest share of the CPUs in use
	Survives       int     `json:"survives"`        // replicas that it must survive losing
	Reconnect      float64 `json:"reconnect"`       // seconds until a lost replica's proxies are back; 0: any
	Growth         float64 `json:"growth"`          // factor in the number of proxies that the autoscaler must handle
}

// Bounds limit what a plan may use.
type Bounds struct {
	MinReplicas int     `json:"min_replicas"`
	MaxReplicas int     `json:"max_replicas"`
	MaxCores    float64 `json:"max_cores"` // of a replica
}

// MaxFile is the maximum size of a mesh file, in bytes.
const MaxFile = 256 << 10

// Default returns a request with everything that has a default; the mesh has no size and no rate.
func Default() Request {
	return Request{
		Mesh:    model.Default(),
		Targets: Targets{ConvergenceP99: 5, CPU: 0.7, Survives: 1, Growth: 2},
		Bounds:  Bounds{MinReplicas: 2, MaxReplicas: 20, MaxCores: 16},
	}
}

// fields returns the fields of a mesh file by their paths, each as what stores its text in a request.
func (r *Request) fields() map[string]func(text string) error {
	m, t, b := &r.Mesh, &r.Targets, &r.Bounds
	out := map[string]func(string) error{
		"proxies":                 whole(&m.Proxies),
		"services":                whole(&m.Services),
		"visible":                 share(&m.Visible),
		"namespaces":              whole(&m.Namespaces),
		"changes.rate":            number(&m.Rate),
		"changes.arrival":         func(text string) error { m.Arrival = text; return nil },
		"targets.convergence_p99": seconds(&t.ConvergenceP99),
		"targets.cpu":             share(&t.CPU),
		"targets.survives":        whole(&t.Survives),
		"targets.reconnect":       seconds(&t.Reconnect),
		"targets.growth":          number(&t.Growth),
		"istiod.min_replicas":     whole(&b.MinReplicas),
		"istiod.max_replicas":     whole(&b.MaxReplicas),
		"istiod.max_cores":        number(&b.MaxCores),
		"istiod.replicas":         whole(&m.Replicas),
		"istiod.cores":            number(&m.Cores),
		"istiod.debounce_after":   seconds(&m.DebounceAfter),
		"istiod.debounce_max":     seconds(&m.DebounceMax),
		"istiod.eds_debounce":     read(func(on bool) { m.DirectEndpoints = !on }, strconv.ParseBool, "true or false"),
		"istiod.push_throttle":    whole(&m.Throttle),
		"istiod.request_limit":    number(&m.ConnectLimit),
		"istiod.connection_age":   seconds(&m.ConnectionAge),
	}
	for _, kind := range model.KindNames() {
		out["changes.mix."+kind] = read(func(weight float64) {
			if m.Mix == nil {
				m.Mix = map[string]float64{}
			}
			m.Mix[kind] = weight
		}, parseNumber, "a number")
	}
	return out
}

// read returns a function that parses a text and stores its value.
func read[T any](store func(T), parse func(text string) (T, error), wanted string) func(text string) error {
	return func(text string) error {
		v, err := parse(text)
		if err != nil {
			return fmt.Errorf("%.40q is not %s", text, wanted)
		}
		store(v)
		return nil
	}
}

func whole(into *int) func(string) error {
	return read(func(v int) { *into = v }, strconv.Atoi, "a whole number")
}

func number(into *float64) func(string) error {
	return read(func(v float64) { *into = v }, parseNumber, "a number")
}

func parseNumber(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

func share(into *float64) func(string) error {
	return read(func(v float64) { *into = v }, func(text string) (float64, error) {
		number, percent := strings.CutSuffix(text, "%")
		v, err := parseNumber(number)
		if percent {
			v /= 100
		}
		return v, err
	}, "a share as 20% or 0.2")
}

func seconds(into *float64) func(string) error {
	return read(func(d time.Duration) { *into = d.Seconds() }, time.ParseDuration, "a duration as 5s or 100ms")
}

const hint = "a mesh file is as\nproxies: 5000\nservices: 2000\nchanges: {rate: 1, mix: {endpoints: 9, configuration: 1}}\ntargets: {convergence_p99: 5s, survives: 1}"

// format bounds a mesh file.
var format = yamltree.Format{What: "mesh file", Bytes: MaxFile, Tokens: 4000, Values: 2000, Depth: 8}

// Parse parses a mesh file. Errors name the field and, if the field itself is invalid, its
// position.
func Parse(data []byte, name string) (Request, error) {
	r, err := parse(data)
	if err == nil {
		return r, nil
	}
	var at *yamltree.Error
	if errors.As(err, &at) && at.Line > 0 {
		return r, errs.WithHint(errs.Usage("%s:%v", name, err), "%s", cmp.Or(at.Hint, hint))
	}
	return r, errs.WithHint(errs.Usage("%s: %v", name, err), "%s", hint)
}

func parse(data []byte) (Request, error) {
	r := Default()
	tree, failed := yamltree.Read(data, format)
	if failed != nil {
		return r, failed
	}
	fields := r.fields()
	if tree != nil {
		if err := take(tree, "", fields); err != nil {
			return r, err
		}
	}
	for _, name := range []string{"proxies", "services", "changes.rate"} {
		if fields[name] != nil {
			return r, fmt.Errorf("%s is missing", name)
		}
	}
	return r, r.check()
}

// take stores the fields of a mapping, whose paths begin with a prefix, and removes them from those that are
// left.
func take(n *yamltree.Node, prefix string, left map[string]func(string) error) error {
	fail := func(n *yamltree.Node, format string, args ...any) error {
		return &yamltree.Error{Line: n.Line, Column: n.Column, Msg: fmt.Sprintf(format, args...)}
	}
	if n.Kind != yamltree.Mapping {
		return fail(n, "%s: must be a mapping, not %s", cmp.Or(strings.TrimSuffix(prefix, "."), "the file"), n.Kind)
	}
	var names []string // of this mapping's fields
	for path := range left {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			name, _, _ := strings.Cut(rest, ".")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, key := range n.Keys {
		path, value := prefix+key.Text, n.Values[i]
		store := left[path]
		switch {
		case !slices.Contains(names, key.Text):
			return fail(key, "unknown field %.40q: %s", key.Text, errs.Suggest(key.Text, names))
		case value.Kind == yamltree.Null:
		case store == nil:
			if err := take(value, path+".", left); err != nil {
				return err
			}
		case value.Kind != yamltree.Scalar:
			return fail(value, "%s: must be a value, not %s", path, value.Kind)
		default:
			if err := store(value.Text); err != nil {
				return fail(value, "%s: %v", path, err)
			}
			delete(left, path)
		}
	}
	return nil
}

// check validates a request except for the mix, which may come from the model.
func (r Request) check() error {
	m := r.Mesh
	if m.Mix == nil {
		m.Mix = map[string]float64{model.MixEndpoints: 1}
	}
	if err := m.Check(); err != nil {
		return err
	}
	t, b := r.Targets, r.Bounds
	if err := model.Within([]model.Bounded{
		{Name: "targets.convergence_p99", Value: t.ConvergenceP99, Low: 0.01, High: 3600},
		{Name: "targets.cpu", Value: t.CPU, Low: 0.05, High: 1},
		{Name: "targets.survives", Value: float64(t.Survives), High: 100},
		{Name: "targets.reconnect", Value: t.Reconnect, High: 3600},
		{Name: "targets.growth", Value: t.Growth, Low: 1, High: 100},
		{Name: "istiod.min_replicas", Value: float64(b.MinReplicas), Low: 1, High: 500},
		{Name: "istiod.max_replicas", Value: float64(b.MaxReplicas), Low: 1, High: 500},
		{Name: "istiod.max_cores", Value: b.MaxCores, Low: ladder[0], High: ladder[len(ladder)-1]},
	}); err != nil {
		return err
	}
	switch {
	case b.MaxReplicas < b.MinReplicas:
		return fmt.Errorf("istiod.max_replicas is %d, fewer than min_replicas, %d", b.MaxReplicas, b.MinReplicas)
	case t.Survives >= b.MaxReplicas:
		return fmt.Errorf("targets.survives is %d: of %d replicas none would be left", t.Survives, b.MaxReplicas)
	}
	return nil
}
