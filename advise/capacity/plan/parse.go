package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

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
	return Request{Mesh: model.Default(), Targets: Targets{ConvergenceP99: 5, CPU: 0.7, Survives: 1, Growth: 2}, Bounds: Bounds{MinReplicas: 2, MaxReplicas: 20, MaxCores: 16}}
}

// file is a mesh file as written: its fields are those of a request.
type file struct {
	Proxies    *int   `json:"proxies"`
	Services   *int   `json:"services"`
	Visible    *share `json:"visible"`
	Namespaces *int   `json:"namespaces"`
	Changes    struct {
		Rate    *float64            `json:"rate"`
		Arrival *string             `json:"arrival"`
		Mix     *map[string]float64 `json:"mix"`
	} `json:"changes"`
	Targets struct {
		ConvergenceP99 *seconds `json:"convergence_p99"`
		CPU            *share   `json:"cpu"`
		Survives       *int     `json:"survives"`
		Reconnect      *seconds `json:"reconnect"`
		Growth         *float64 `json:"growth"`
	} `json:"targets"`
	Istiod struct {
		MinReplicas   *int     `json:"min_replicas"`
		MaxReplicas   *int     `json:"max_replicas"`
		MaxCores      *float64 `json:"max_cores"`
		Replicas      *int     `json:"replicas"`
		Cores         *float64 `json:"cores"`
		DebounceAfter *seconds `json:"debounce_after"`
		DebounceMax   *seconds `json:"debounce_max"`
		EDSDebounce   bool     `json:"eds_debounce"`
		PushThrottle  *int     `json:"push_throttle"`
		RequestLimit  *float64 `json:"request_limit"`
		ConnectionAge *seconds `json:"connection_age"`
	} `json:"istiod"`
}

// fileOf returns a file whose fields are stored in a request.
func fileOf(r *Request) (f file) {
	m, t, b := &r.Mesh, &r.Targets, &r.Bounds
	f.Proxies, f.Services, f.Visible, f.Namespaces = &m.Proxies, &m.Services, (*share)(&m.Visible), &m.Namespaces
	f.Changes.Rate, f.Changes.Arrival, f.Changes.Mix = &m.Rate, &m.Arrival, &m.Mix
	f.Targets.ConvergenceP99, f.Targets.CPU, f.Targets.Survives = (*seconds)(&t.ConvergenceP99), (*share)(&t.CPU), &t.Survives
	f.Targets.Reconnect, f.Targets.Growth = (*seconds)(&t.Reconnect), &t.Growth
	i := &f.Istiod
	i.MinReplicas, i.MaxReplicas, i.MaxCores = &b.MinReplicas, &b.MaxReplicas, &b.MaxCores
	i.Replicas, i.Cores, i.EDSDebounce = &m.Replicas, &m.Cores, true
	i.DebounceAfter, i.DebounceMax = (*seconds)(&m.DebounceAfter), (*seconds)(&m.DebounceMax)
	i.PushThrottle, i.RequestLimit, i.ConnectionAge = &m.Throttle, &m.ConnectLimit, (*seconds)(&m.ConnectionAge)
	return f
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
	f := fileOf(&r)
	if tree != nil {
		if err := f.read(tree, data); err != nil {
			return r, err
		}
	}
	for _, name := range []string{"proxies", "services", "changes.rate"} {
		if tree == nil || find(tree, name).Text == "" {
			return r, fmt.Errorf("%s is missing", name)
		}
	}
	r.Mesh.DirectEndpoints = !f.Istiod.EDSDebounce
	return r, r.check()
}

// read decodes a file; the tree locates errors.
func (f *file) read(tree *yamltree.Node, data []byte) error {
	fail := func(n *yamltree.Node, format string, args ...any) error {
		return &yamltree.Error{Line: n.Line, Column: n.Column, Msg: fmt.Sprintf(format, args...)}
	}
	if key, names := unknown(tree, reflect.TypeOf(*f)); key != nil {
		return fail(key, "unknown field %.40q: %s", key.Text, errs.Suggest(key.Text, names))
	}
	err := yaml.UnmarshalStrict(data, f)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fail(find(tree, wrong.Field), "%s: unexpected %s", cmp.Or(wrong.Field, "the file"), wrong.Value)
	}
	return err
}

// unknown finds a key without a field in a struct, and the names of the struct's fields.
func unknown(n *yamltree.Node, t reflect.Type) (key *yamltree.Node, names []string) {
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		fields[t.Field(i).Tag.Get("json")] = t.Field(i).Type
	}
	for i, key := range n.Keys {
		inner, ok := fields[key.Text]
		if !ok {
			return key, slices.Sorted(maps.Keys(fields))
		}
		if key, names := unknown(n.Values[i], inner); key != nil {
			return key, names
		}
	}
	return nil, nil
}

// find follows a path of keys as far as it exists.
func find(n *yamltree.Node, path string) *yamltree.Node {
	for name := range strings.SplitSeq(path, ".") {
		i := slices.IndexFunc(n.Keys, func(key *yamltree.Node) bool { return key.Text == name })
		if i < 0 {
			break
		}
		n = n.Values[i]
	}
	return n
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
	for _, f := range []struct {
		name         string
		v, low, high float64
	}{
		{"targets.convergence_p99", t.ConvergenceP99, 0.01, 3600}, {"targets.cpu", t.CPU, 0.05, 1}, {"targets.survives", float64(t.Survives), 0, 100},
		{"targets.reconnect", t.Reconnect, 0, 3600}, {"targets.growth", t.Growth, 1, 100},
		{"istiod.min_replicas", float64(b.MinReplicas), 1, 500}, {"istiod.max_replicas", float64(b.MaxReplicas), 1, 500},
		{"istiod.max_cores", b.MaxCores, ladder[0], ladder[len(ladder)-1]},
	} {
		if math.IsNaN(f.v) || f.v < f.low || f.v > f.high {
			return fmt.Errorf("%s is %g: must be from %g to %g", f.name, f.v, f.low, f.high)
		}
	}
	switch {
	case b.MaxReplicas < b.MinReplicas:
		return fmt.Errorf("istiod.max_replicas is %d, fewer than min_replicas, %d", b.MaxReplicas, b.MinReplicas)
	case t.Survives >= b.MaxReplicas:
		return fmt.Errorf("targets.survives is %d: of %d replicas none would be left", t.Survives, b.MaxReplicas)
	}
	return nil
}

// share is a ratio written as 20% or 0.2.
type share float64

// UnmarshalJSON reads a share.
func (s *share) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return &json.UnmarshalTypeError{Value: fmt.Sprintf("%.40q: a share is as 20%% or 0.2", text)}
	}
	if percent {
		v /= 100
	}
	*s = share(v)
	return nil
}

// seconds is a duration written as 5s or 100ms.
type seconds float64

// UnmarshalJSON reads a duration.
func (s *seconds) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	d, err := time.ParseDuration(text)
	if err != nil {
		return &json.UnmarshalTypeError{Value: fmt.Sprintf("%.40q: a duration is as 5s or 100ms", text)}
	}
	*s = seconds(d.Seconds())
	return nil
}
