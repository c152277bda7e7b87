package fault

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/study"
)

// ServiceValue names a service of the graph.
type ServiceValue struct {
	study.Single[string]
	To      *string
	Clients bool // or [LoadService]
}

func service(to *string, clients bool) ServiceValue {
	hint := "use the name of a service of the graph"
	if clients {
		hint += ", or " + LoadService
	}
	return ServiceValue{study.Named(to, study.NamePattern, "service", hint), to, clients}
}

func serviceField(to *string) study.Field {
	return study.Field{Name: "service", Required: true, Doc: "A service of the graph.", Value: service(to, false)}
}

func pickField(to *int) study.Field {
	return study.Field{Name: "pick", Doc: "How many of its pods, the first by name; all if left out.", Value: study.Int(to, 1, graph.MaxReplicas).OmitZero()}
}

var bitUnits = []struct {
	name string
	one  float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// bits is a bit rate with its unit.
func bits(to *int64) study.Value {
	return study.Parsed(to, parseBits, writeBits, jsonschema.Schema{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)?(bit|kbit|mbit|gbit)$`, Examples: []any{"1mbit"}}).OmitZero()
}

func parseBits(text string) (int64, *study.Error) {
	const hint = "write 1mbit or 500kbit"
	m := study.UnitPattern.FindStringSubmatch(text)
	if m == nil {
		return 0, study.Complain(study.CodeInvalid, hint, "%q is not a rate", study.Clip(text, 40))
	}
	value, c := study.Number(m[1])
	if c != nil {
		return 0, c
	}
	for _, u := range bitUnits {
		if u.name == m[2] && value*u.one >= 8000 && value*u.one <= 1e12 {
			return int64(value * u.one), nil
		}
	}
	return 0, study.Complain(study.CodeInvalid, hint+", from 8kbit to 1000gbit", "%q is not a rate", study.Clip(text, 40))
}

func writeBits(n int64) string {
	for _, u := range bitUnits {
		if one := int64(u.one); n%one == 0 {
			return fmt.Sprint(n/one) + u.name
		}
	}
	panic("fault: there is a unit of one bit")
}

// manifestsValue is text with objects of the Kubernetes API.
type manifestsValue struct{ to *[]map[string]any }

func (v manifestsValue) Decode(d *study.Decoder, n *study.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	const hint = "write manifests as for kubectl apply, after apply: |"
	decoder := yaml.NewDecoder(strings.NewReader(text), yaml.UseJSONUnmarshaler())
	for {
		var one map[string]any
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			d.Fail(n.Pos, study.CodeConflict, hint, "invalid manifest: %s", first)
			return
		}
		if one == nil {
			continue
		}
		meta, _ := one["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		kind, _ := one["kind"].(string)
		if version, _ := one["apiVersion"].(string); version == "" || kind == "" || name == "" {
			d.Fail(n.Pos, study.CodeMissing, hint, "manifest %d lacks apiVersion, kind or metadata.name", len(*v.to)+1)
			return
		}
		*v.to = append(*v.to, one)
	}
	if len(*v.to) == 0 {
		d.Fail(n.Pos, study.CodeInvalid, hint, "there is no manifest")
	}
}

func (v manifestsValue) Encode() *study.Node {
	if len(*v.to) == 0 {
		return nil
	}
	var parts []string
	for _, one := range *v.to {
		text, err := yaml.Marshal(one)
		if err != nil { // it was parsed from YAML
			panic(err)
		}
		parts = append(parts, strings.TrimSpace(string(text)))
	}
	return study.TextNode(strings.Join(parts, "\n---\n"))
}

func (v manifestsValue) Schema() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }

// behaviour describes the worker behaviour that a step changes.
func behaviour(b *Behaviour) study.Object {
	return study.Object{Name: "set", Fields: []study.Field{
		{Name: "service_time", Doc: "Service time.", Value: study.Optional(&b.ServiceTime, graph.TimeValue)},
		{Name: "response", Doc: "Response body size.", Value: study.OrNone[int64]{To: &b.ResponseBytes, Value: func(n *int64) study.Value { return study.Size(n, study.MaxPayload) }}},
		{Name: "concurrency", Doc: "Requests served at once; 0 for no bound.", Value: study.OrNone[int]{To: &b.Concurrency, Value: func(n *int) study.Value { return study.Int(n, 0, graph.MaxConcurrency) }}},
		{Name: "queue", Doc: "Requests that may wait for that.", Value: study.OrNone[int]{To: &b.Queue, Value: func(n *int) study.Value { return study.Int(n, 0, graph.MaxQueue) }}},
		{Name: "cpu", Doc: "CPU time spent on each request.", Value: study.OrNone[time.Duration]{To: &b.CPU, Value: func(t *time.Duration) study.Value { return study.Duration(t, 0, graph.MaxTime) }}},
		{Name: "memory", Doc: "Memory held.", Value: study.OrNone[int64]{To: &b.Memory, Value: func(n *int64) study.Value { return study.Size(n, 64<<30) }}},
		{Name: "failures", Doc: "Shares of requests that fail, replacing those before; [] for none.", Value: failuresValue{&b.Failures}},
		{Name: "ready", Doc: "Answer to the readiness probe.", Value: study.OrNone[bool]{To: &b.Ready, Value: func(r *bool) study.Value { return study.Bool(r) }}},
	}}
}

// failuresValue is a list of failures; an empty list is meaningful.
type failuresValue struct{ to *[]graph.Failure }

func (v failuresValue) list() study.ListValue[graph.Failure] {
	return study.ListValue[graph.Failure]{To: v.to, Element: graph.FailureValue}
}

func (v failuresValue) Decode(d *study.Decoder, n *study.Node) {
	if v.list().Decode(d, n); *v.to == nil {
		*v.to = []graph.Failure{}
	}
}

func (v failuresValue) Encode() *study.Node {
	if *v.to == nil {
		return nil
	}
	if n := v.list().Encode(); n != nil {
		return n
	}
	return &study.Node{Kind: study.Sequence, Style: study.StyleFlow}
}

func (v failuresValue) Schema() *jsonschema.Schema { return v.list().Schema() }
