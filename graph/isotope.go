package graph

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Isotope is a service graph as istio/tools' isotope describes it.
type Isotope struct {
	Graph Graph
	// Entries are the services marked isEntrypoint.
	Entries []string
	// Warnings say what of the file cannot be expressed, and what became of it.
	Warnings Problems
}

// ReadIsotope reads a service graph of isotope and checks it. Problems have
// the file's lines. A script becomes a service time, the sum of its sleeps,
// and calls: at once where the script is one list of calls, otherwise one
// after the other.
//
// The format is that of istio/tools, isotope/convert/pkg/graph, as of August
// 2026: its README describes an older one. As there, sizes are powers of 1024
// whatever the unit's spelling, and fields that nobody knows are left out;
// here with a warning.
func ReadIsotope(data []byte) (Isotope, error) {
	root, p := readTree(data)
	if p != nil {
		return Isotope{}, Problems{*p}.Err()
	}
	r := &isotope{places: map[string]*node{}}
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
	places   map[string]*node // of fields, by their paths in the graph
	warned   map[string]bool

	defaults Service
	script   *node // of defaults
	request  int64 // default size of a request's body
}

func (r *isotope) fail(n *node, path, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{path, fmt.Sprintf(format, args...), hint, n.line, n.column})
}

func (r *isotope) warn(n *node, path, hint, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{path, fmt.Sprintf(format, args...), hint, n.line, n.column})
}

// locate gives a problem of the graph the line it comes from: that of its
// field, or of what the field is in.
func (r *isotope) locate(p *Problem) {
	for path := p.Path; path != ""; {
		if n := r.places[path]; n != nil {
			p.Line, p.Column = n.line, n.column
			return
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	p.Line, p.Column = 1, 1
}

func (r *isotope) file(root *node) {
	if root.kind != mapping {
		r.fail(root, "file", "", "a graph is a mapping with services, this is %s", root.kind)
		return
	}
	var services *node
	for i, key := range root.keys {
		switch value := root.values[i]; key.text {
		case "apiVersion", "kind":
		case "defaults":
			r.readDefaults(value)
		case "services":
			services = value
			r.places["services"] = key
		case "default":
			r.warn(key, "default", "call it defaults", "isotope reads defaults, not default: left out")
		default:
			r.unknown(key, key.text)
		}
	}
	if services == nil || services.kind != sequence {
		r.fail(root, "services", "", "a graph has a list of services")
		return
	}
	if len(services.values) > MaxServices {
		r.fail(services, "services", "", "%d services are too many, at most %d are possible", len(services.values), MaxServices)
		return
	}
	for i, s := range services.values {
		r.service(s, fmt.Sprintf("services[%d]", i))
	}
}

func (r *isotope) unknown(key *node, path string) {
	r.warn(key, path, "", "field %q is left out", clip(key.text))
}

func (r *isotope) readDefaults(n *node) {
	if n.kind == null {
		return
	}
	if n.kind != mapping {
		r.fail(n, "defaults", "", "defaults are a mapping, this is %s", n.kind)
		return
	}
	for i, key := range n.keys {
		path := "defaults." + clip(key.text)
		switch value := n.values[i]; key.text {
		case "script":
			r.script = value
		case "requestSize":
			r.request = r.size(value, path)
		default:
			if !r.common(&r.defaults, key.text, value, path) {
				r.unknown(key, path)
			}
		}
	}
}

// common reads a field that defaults and services share.
func (r *isotope) common(s *Service, field string, value *node, path string) bool {
	switch field {
	case "type":
		switch strings.ToLower(value.text) {
		case "http":
			s.Protocol = HTTP1
		case "grpc":
			s.Protocol = GRPC
		default:
			r.fail(value, path, "http or grpc", "unknown type %q", clip(value.text))
		}
	case "numReplicas":
		n, err := strconv.Atoi(value.text)
		if err != nil || n < 0 || n > MaxReplicas {
			r.fail(value, path, "", "%q is no number of replicas, 0 to %d is possible", clip(value.text), MaxReplicas)
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

func (r *isotope) service(n *node, path string) {
	if n.kind != mapping {
		r.fail(n, path, "", "a service is a mapping, this is %s", n.kind)
		return
	}
	s, script, scriptPath := r.defaults, r.script, "defaults.script"
	s.Failures = append([]Failure(nil), s.Failures...)
	named := path
	for i, key := range n.keys {
		if key.text == "name" && n.values[i].kind == scalar {
			s.Name = n.values[i].text
			named = "services." + clip(s.Name)
			r.places[path+".name"] = n.values[i]
		}
	}
	if r.places[named] == nil {
		r.places[named] = n
	}
	if s.Name == "" {
		r.fail(n, path, "", "a service lacks its name")
	}
	for i, key := range n.keys {
		at := named + "." + clip(key.text)
		switch value := n.values[i]; key.text {
		case "name":
		case "script":
			script, scriptPath = value, at
		case "isEntrypoint":
			switch value.text {
			case "true":
				r.entries = append(r.entries, s.Name)
			case "false":
			default:
				r.fail(value, at, "true or false", "%q is neither true nor false", clip(value.text))
			}
		case "namespace", "cluster":
			r.warn(key, at, "", "all services are in one namespace of one cluster: %s is left out", key.text)
		default:
			if !r.common(&s, key.text, value, at) {
				r.unknown(key, at)
			}
		}
	}
	if script != nil && script.kind != null {
		r.steps(&s, script, scriptPath)
	}
	r.graph.Services = append(r.graph.Services, s)
}

// steps reads a script: a list of commands, of which one may be a list of
// commands at once.
func (r *isotope) steps(s *Service, script *node, path string) {
	if script.kind != sequence {
		r.fail(script, path, "", "a script is a list of commands, this is %s", script.kind)
		return
	}
	groups := 0 // lists of several commands
	for i, step := range script.values {
		at := fmt.Sprintf("%s[%d]", path, i)
		if step.kind != sequence {
			r.command(s, step, at)
			continue
		}
		calls := len(s.Calls)
		slept := s.ServiceTime.Mean
		for j, command := range step.values {
			if command.kind == sequence {
				r.fail(command, fmt.Sprintf("%s[%d]", at, j), "", "a list of commands at once cannot hold another list")
				continue
			}
			r.command(s, command, fmt.Sprintf("%s[%d]", at, j))
		}
		if len(step.values) < 2 {
			continue
		}
		groups++
		if s.ServiceTime.Mean > slept {
			r.warn(step, at, "", "a sleep beside calls is added to the service time, which comes before all calls: latency is longer")
		}
		if calls > 0 || i+1 < len(script.values) && moreCalls(script.values[i+1:]) {
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

func moreCalls(steps []*node) bool {
	for _, step := range steps {
		if step.kind == sequence && moreCalls(step.values) {
			return true
		}
		for _, key := range step.keys {
			if step.kind == mapping && key.text == "call" {
				return true
			}
		}
	}
	return false
}

func (r *isotope) command(s *Service, n *node, path string) {
	if n.kind != mapping || len(n.keys) != 1 {
		r.fail(n, path, "sleep or call", "a command has one name")
		return
	}
	value := n.values[0]
	switch n.keys[0].text {
	case "sleep":
		d, err := time.ParseDuration(value.text)
		switch {
		case value.kind != scalar || err != nil:
			r.fail(value, path+".sleep", "a time with its unit, as 10ms", "%q is no time", clip(value.text))
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
		r.fail(n.keys[0], path, "sleep or call", "unknown command %q", clip(n.keys[0].text))
	}
}

func (r *isotope) call(s *Service, n *node, path string) {
	call := Call{To: n.text, RequestBytes: r.request}
	switch n.kind {
	case scalar:
	case mapping:
		for i, key := range n.keys {
			at := path + "." + clip(key.text)
			switch value := n.values[i]; key.text {
			case "service":
				call.To = value.text
			case "size":
				call.RequestBytes = r.size(value, at)
			case "probability": // per cent; 0 is always, as if it were not set
				p, err := strconv.Atoi(value.text)
				if err != nil || p < 0 || p > 100 {
					r.fail(value, at, "", "%q is no whole number from 0 to 100", clip(value.text))
				}
				call.Probability = float64(p) / 100
			default:
				r.unknown(key, at)
			}
		}
	default:
		r.fail(n, path, "", "a call names a service, this is %s", n.kind)
		return
	}
	r.places[fmt.Sprintf("services.%s.calls[%d]", clip(s.Name), len(s.Calls))] = n
	s.Calls = append(s.Calls, call)
}

func (r *isotope) percentage(n *node, path string) (float64, bool) {
	text, percent := strings.CutSuffix(n.text, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		r.fail(n, path, "0.1% or 0.001", "%q is no share from 0 to 1", clip(n.text))
		return 0, false
	}
	return f, true
}

var sizePattern = regexp.MustCompile(`(?i)^([0-9]+(?:\.[0-9]+)?) ?([kmgtp]?)i?b?$`)

func (r *isotope) size(n *node, path string) int64 {
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(n.text))
	if n.kind != scalar || m == nil {
		r.fail(n, path, "as 128, 16 KB or 1.5MiB", "%q is no size", clip(n.text))
		return 0
	}
	f, err := strconv.ParseFloat(m[1], 64)
	f *= math.Pow(1024, float64(strings.Index(" kmgtp", strings.ToLower(m[2]))*len(m[2])))
	if err != nil || f > MaxBytes {
		r.fail(n, path, "", "%s is too large, at most %d bytes are possible", clip(n.text), MaxBytes)
		return 0
	}
	return int64(f)
}
