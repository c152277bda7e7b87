package resilience

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/study"
)

// timelineSection is the section timeline: what happens in a trial.
func timelineSection(t *fault.Timeline) study.Object {
	return study.Object{Name: "timeline", Fields: []study.Field{
		{Name: "duration", Required: true, Doc: "Duration of a trial, from the first request.",
			Value: study.Duration(&t.Duration, time.Second, time.Hour)},
		{Name: "steps", Doc: "What happens, and when. The windows between steps are named after them.",
			Value: study.ListValue[fault.Step]{To: &t.Steps, Element: stepValue}},
	}}
}

func stepValue(s *fault.Step) study.Value {
	o := study.Object{Name: "a step", Fields: []study.Field{
		{Name: "name", Required: true, Doc: "Short name, also of the window that the step begins.", Value: study.Named(&s.Name, study.NamePattern, "name", study.NameHint+", as first-server-gone")},
		{Name: "at", Doc: "Start, after the first request; with when, the earliest start.", Value: study.Duration(&s.At, 0, time.Hour).OmitZero()},
		{Name: "when", Doc: "CEL condition on the clients' last second: error_share, rate, latency_p99 (ms). The step begins when it first holds.", Value: study.Prose(&s.When)},
		{Name: "every", Doc: "Time between repetitions.", Value: study.Duration(&s.Every, 0, time.Hour).OmitZero()},
		{Name: "times", Doc: "Number of repetitions.", Value: study.Int(&s.Times, 1, fault.MaxOccurrences).OmitZero()},
		{Name: "for", Doc: "Time until it is reverted; the trial's end if left out.", Value: study.Duration(&s.For, 0, time.Hour).OmitZero()},
	}}
	for _, kind := range fault.Kinds() {
		o.Fields = append(o.Fields, study.Field{Name: kind.Name, Doc: kind.Doc, Value: actionValue{s, kind}})
	}
	return o
}

// actionValue is a step's action, if it is of a given kind.
type actionValue struct {
	step *fault.Step
	kind fault.Kind
}

func (v actionValue) object(a fault.Action) study.Object {
	return study.Object{Name: v.kind.Name, Flow: !v.kind.Long, Fields: actionFields(a.Fields())}
}

func (v actionValue) Decode(d *study.Decoder, n *study.Node) {
	if v.step.Action != nil {
		p := fault.OneAction(v.step.Name)
		d.Fail(n.Pos, study.CodeConflict, p.Hint, "%s", p.Text)
		return
	}
	v.step.Action = v.kind.New()
	v.object(v.step.Action).Decode(d, n)
}

func (v actionValue) Encode() *study.Node {
	a := v.step.Action
	if a == nil || a.Kind() != v.kind.Name {
		return nil
	}
	if n := v.object(a).Encode(); n != nil {
		return n
	}
	return &study.Node{Kind: study.Mapping, Style: study.StyleFlow}
}

func (v actionValue) Schema() *jsonschema.Schema { return v.object(v.kind.New()).Schema() }

// actionFields reads, writes and documents the fields that package fault defines for an action.
func actionFields(all []fault.Field) []study.Field {
	out := make([]study.Field, len(all))
	for i, f := range all {
		out[i] = study.Field{Name: f.Name, Doc: f.Doc, Required: f.Required, Value: actionField(f.Value)}
	}
	return out
}

func actionField(v fault.Value) study.Value {
	switch v := v.(type) {
	case fault.Text:
		if len(v.OneOf) == 0 {
			return study.Prose(v.To)
		}
		return study.OneOf(v.To, v.OneOf...)
	case fault.Version:
		return study.Named(v.To, study.VersionPattern, "version", "use a full version, such as 1.39.0")
	case fault.Namespace:
		return study.Named(v.To, study.NamePattern, "namespace", study.NamespaceHint)
	case fault.Service:
		hint := "use the name of a service of the graph"
		if v.Clients {
			hint += ", or " + fault.LoadService
		}
		return study.Named(v.To, study.NamePattern, "service", hint)
	case fault.Count:
		return study.Int(v.To, 1, v.Most).OmitZero()
	case fault.Flag:
		return study.Bool(v.To).OmitZero()
	case fault.Share:
		return study.Portion(v.To).OmitZero()
	case fault.Number:
		return study.Float(v.To, v.Most)
	case fault.Time:
		return study.Duration(v.To, 0, v.Most).OmitZero()
	case fault.Bits:
		return bits(v.To)
	case fault.Manifests:
		return manifestsValue{v.To}
	case fault.Objects:
		return study.ListValue[fault.ObjectRef]{To: v.To, Element: func(r *fault.ObjectRef) study.Value {
			return study.Object{Name: "an object", Flow: true, Fields: actionFields(r.Fields())}
		}}
	case fault.Behaviours:
		return behaviour(v.To)
	}
	panic(fmt.Sprintf("study: no field can be a %T", v)) // a type of package fault that is missing above
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
	panic("resilience: there is a unit of one bit")
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
		if err != nil && err.Error() == "EOF" {
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
