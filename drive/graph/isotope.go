package graph

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/yamltree"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// MaxFile limits the bytes of a graph's file.
const MaxFile = 1 << 20

// isotopeFile bounds isotope files; their format nests 6 levels.
var isotopeFile = yamltree.Format{What: "graph", Bytes: MaxFile, Tokens: 60_000, Values: 60_000, Depth: 16}

// Isotope is a service graph as istio/tools' isotope describes it.
type Isotope struct {
	Graph Graph
	// Entries are the services marked isEntrypoint.
	Entries []string
	// Warnings say what of the file cannot be expressed and what replaces it.
	Warnings Problems
}

// ReadIsotope reads and checks a service graph of isotope. Problems have the
// file's lines. A script becomes a service time, the sum of its sleeps, and calls:
// in parallel if the script is one list of calls, otherwise in sequence.
//
// The format is that of istio/tools, isotope/convert/pkg/graph, as of August 2026;
// its README describes an older one. As there, sizes are powers of 1024 whatever
// the unit's spelling, and unknown fields are ignored, here with a warning.
func ReadIsotope(data []byte) (Isotope, error) {
	root, failed := yamltree.Read(data, isotopeFile)
	if failed == nil && root == nil {
		failed = &yamltree.Error{Msg: "nothing is in it"}
	}
	if failed != nil {
		return Isotope{}, Problems{{"file", failed.Msg, failed.Hint, failed.Line, failed.Column}}.Err()
	}
	r := &isotope{places: map[string]*yamltree.Node{}}
	r.file(root)
	out := Isotope{Graph: r.graph.WithDefaults(), Entries: r.entries, Warnings: r.warnings}
	if len(r.problems) == 0 {
		r.problems = out.Graph.Check()
		for i := range r.problems {
			r.locate(&r.problems[i])
		}
	}
	if err := r.problems.Err(); err != nil {
		return Isotope{}, err
	}
	return out, nil
}

type isotope struct {
	graph    Graph
	entries  []string
	problems Problems
	warnings Problems
	places   map[string]*yamltree.Node // of fields, by their paths in the graph

	defaults Service
	script   *yamltree.Node // of defaults
	request  int64          // default size of a request's body
}

func (r *isotope) fail(n *yamltree.Node, path, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{path, fmt.Sprintf(format, args...), hint, n.Line, n.Column})
}

func (r *isotope) warn(n *yamltree.Node, path, hint, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{path, fmt.Sprintf(format, args...), hint, n.Line, n.Column})
}

// locate gives a problem the line of its field, or of what contains the field.
func (r *isotope) locate(p *Problem) {
	for path := p.Path; path != ""; {
		if n := r.places[path]; n != nil {
			p.Line, p.Column = n.Line, n.Column
			return
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	p.Line, p.Column = 1, 1
}

func (r *isotope) file(root *yamltree.Node) {
	if root.Kind != yamltree.Mapping {
		r.fail(root, "file", "", "a graph is a mapping with services, this is %s", root.Kind)
		return
	}
	var services *yamltree.Node
	for i, key := range root.Keys {
		switch value := root.Values[i]; key.Text {
		case "apiVersion", "kind":
		case "defaults":
			r.readDefaults(value)
		case "services":
			services = value
			r.places["services"] = key
		case "default":
			r.warn(key, "default", "call it defaults", "isotope reads defaults, not default: left out")
		default:
			r.unknown(key, key.Text)
		}
	}
	if services == nil || services.Kind != yamltree.Sequence {
		r.fail(root, "services", "", "a graph has a list of services")
		return
	}
	if len(services.Values) > MaxServices {
		r.fail(services, "services", "", "%d services are too many, at most %d are possible", len(services.Values), MaxServices)
		return
	}
	for i, s := range services.Values {
		r.service(s, fmt.Sprintf("services[%d]", i))
	}
}

func (r *isotope) unknown(key *yamltree.Node, path string) {
	r.warn(key, path, "", "field %q is left out", clip(key.Text))
}

func (r *isotope) readDefaults(n *yamltree.Node) {
	if n.Kind == yamltree.Null {
		return
	}
	if n.Kind != yamltree.Mapping {
		r.fail(n, "defaults", "", "defaults are a mapping, this is %s", n.Kind)
		return
	}
	for i, key := range n.Keys {
		path := "defaults." + clip(key.Text)
		switch value := n.Values[i]; key.Text {
		case "script":
			r.script = value
		case "requestSize":
			r.request = r.size(value, path)
		default:
			if !r.common(&r.defaults, key.Text, value, path) {
				r.unknown(key, path)
			}
		}
	}
}

// common reads a field that defaults and services share.
func (r *isotope) common(s *Service, field string, value *yamltree.Node, path string) bool {
	switch field {
	case "type":
		switch strings.ToLower(value.Text) {
		case "http":
			s.Protocol = protocol.HTTP1
		case "grpc":
			s.Protocol = protocol.GRPC
		default:
			r.fail(value, path, "http or grpc", "unknown type %q", clip(value.Text))
		}
	case "numReplicas":
		n, err := strconv.Atoi(value.Text)
		if err != nil || n < 0 || n > MaxReplicas {
			r.fail(value, path, "", "%q is no number of replicas, 0 to %d is possible", clip(value.Text), MaxReplicas)
		} else if n == 0 {
			r.warn(value, path, "", "a service without replicas gets one")
		}
		s.Replicas = n
	case "errorRate":
		s.Failures = nil
		if share, ok := r.percentage(value, path); ok && share > 0 {
			s.Failures = []Failure{{Share: share, How: FailStatus, Status: 500}}
		}
	case "responseSize":
		s.ResponseBytes = r.size(value, path)
	default:
		return false
	}
	return true
}

func (r *isotope) service(n *yamltree.Node, path string) {
	if n.Kind != yamltree.Mapping {
		r.fail(n, path, "", "a service is a mapping, this is %s", n.Kind)
		return
	}
	s, script, scriptPath := r.defaults, r.script, "defaults.script"
	s.Failures = slices.Clone(s.Failures)
	named := path
	for i, key := range n.Keys {
		if key.Text == "name" && n.Values[i].Kind == yamltree.Scalar {
			s.Name = n.Values[i].Text
			named = "services." + clip(s.Name)
			r.places[path+".name"] = n.Values[i]
		}
	}
	if r.places[named] == nil {
		r.places[named] = n
	}
	if s.Name == "" {
		r.fail(n, path, "", "a service lacks its name")
	}
	for i, key := range n.Keys {
		at := named + "." + clip(key.Text)
		switch value := n.Values[i]; key.Text {
		case "name":
		case "script":
			script, scriptPath = value, at
		case "isEntrypoint":
			switch value.Text {
			case "true":
				r.entries = append(r.entries, s.Name)
			case "false":
			default:
				r.fail(value, at, "true or false", "%q is neither true nor false", clip(value.Text))
			}
		case "namespace", "cluster":
			r.warn(key, at, "", "all services are in one namespace of one cluster: %s is left out", key.Text)
		default:
			if !r.common(&s, key.Text, value, at) {
				r.unknown(key, at)
			}
		}
	}
	if script != nil && script.Kind != yamltree.Null {
		r.steps(&s, script, scriptPath)
	}
	r.graph.Services = append(r.graph.Services, s)
}

// steps reads a script: a list of commands, or of lists of concurrent commands.
func (r *isotope) steps(s *Service, script *yamltree.Node, path string) {
	if script.Kind != yamltree.Sequence {
		r.fail(script, path, "", "a script is a list of commands, this is %s", script.Kind)
		return
	}
	groups := 0 // lists of several commands
	for i, step := range script.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		if step.Kind != yamltree.Sequence {
			r.command(s, step, at)
			continue
		}
		calls := len(s.Calls)
		slept := s.ServiceTime.Mean
		for j, command := range step.Values {
			if command.Kind == yamltree.Sequence {
				r.fail(command, fmt.Sprintf("%s[%d]", at, j), "", "a list of commands at once cannot hold another list")
				continue
			}
			r.command(s, command, fmt.Sprintf("%s[%d]", at, j))
		}
		if len(step.Values) < 2 {
			continue
		}
		groups++
		if s.ServiceTime.Mean > slept {
			r.warn(step, at, "", "a sleep beside calls is added to the service time, which comes before all calls: latency is longer")
		}
		if calls > 0 || i+1 < len(script.Values) && moreCalls(script.Values[i+1:]) {
			r.warn(step, at, "", "calls of %s are partly at once: they are made one after the other, and latency is longer", s.Name)
			continue
		}
		if groups == 1 && len(s.Calls) > 1 {
			s.Mode = Parallel
		}
	}
	if s.ServiceTime.Mean > 0 {
		s.ServiceTime.Distribution = Fixed
	}
}

func moreCalls(steps []*yamltree.Node) bool {
	for _, step := range steps {
		if step.Kind == yamltree.Sequence && moreCalls(step.Values) {
			return true
		}
		for _, key := range step.Keys {
			if step.Kind == yamltree.Mapping && key.Text == "call" {
				return true
			}
		}
	}
	return false
}

func (r *isotope) command(s *Service, n *yamltree.Node, path string) {
	if n.Kind != yamltree.Mapping || len(n.Keys) != 1 {
		r.fail(n, path, "sleep or call", "a command has one name")
		return
	}
	value := n.Values[0]
	switch n.Keys[0].Text {
	case "sleep":
		d, err := time.ParseDuration(value.Text)
		switch {
		case value.Kind != yamltree.Scalar || err != nil:
			r.fail(value, path+".sleep", "a time with its unit, as 10ms", "%q is no time", clip(value.Text))
			return
		case d < 0 || d > MaxTime || s.ServiceTime.Mean+d > MaxTime:
			r.fail(value, path+".sleep", "", "%s is out of range, all sleeps of a service together may take up to %s", d, MaxTime)
			return
		case len(s.Calls) > 0:
			r.warn(n, path, "", "a sleep after a call is added to the service time, which comes before all calls")
		}
		s.ServiceTime.Mean += d
	case "call":
		r.call(s, value, path+".call")
	default:
		r.fail(n.Keys[0], path, "sleep or call", "unknown command %q", clip(n.Keys[0].Text))
	}
}

func (r *isotope) call(s *Service, n *yamltree.Node, path string) {
	call := Call{To: n.Text, RequestBytes: r.request}
	switch n.Kind {
	case yamltree.Scalar:
	case yamltree.Mapping:
		for i, key := range n.Keys {
			at := path + "." + clip(key.Text)
			switch value := n.Values[i]; key.Text {
			case "service":
				call.To = value.Text
			case "size":
				call.RequestBytes = r.size(value, at)
			case "probability": // per cent; 0 is always, as if it were not set
				p, err := strconv.Atoi(value.Text)
				if err != nil || p < 0 || p > 100 {
					r.fail(value, at, "", "%q is no whole number from 0 to 100", clip(value.Text))
				}
				call.Probability = float64(p) / 100
			default:
				r.unknown(key, at)
			}
		}
	default:
		r.fail(n, path, "", "a call names a service, this is %s", n.Kind)
		return
	}
	r.places[fmt.Sprintf("services.%s.calls[%d]", clip(s.Name), len(s.Calls))] = n
	s.Calls = append(s.Calls, call)
}

func (r *isotope) percentage(n *yamltree.Node, path string) (float64, bool) {
	text, percent := strings.CutSuffix(n.Text, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		r.fail(n, path, "0.1% or 0.001", "%q is no share from 0 to 1", clip(n.Text))
		return 0, false
	}
	return f, true
}

var sizePattern = regexp.MustCompile(`(?i)^([0-9]+(?:\.[0-9]+)?) ?([kmgtp]?)i?b?$`)

func (r *isotope) size(n *yamltree.Node, path string) int64 {
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(n.Text))
	if n.Kind != yamltree.Scalar || m == nil {
		r.fail(n, path, "as 128, 16 KB or 1.5MiB", "%q is no size", clip(n.Text))
		return 0
	}
	f, err := strconv.ParseFloat(m[1], 64)
	f *= math.Pow(1024, float64(strings.Index(" kmgtp", strings.ToLower(m[2]))*len(m[2])))
	if err != nil || f > MaxBytes {
		r.fail(n, path, "", "%s is too large, at most %d bytes are possible", clip(n.Text), MaxBytes)
		return 0
	}
	return int64(f)
}
