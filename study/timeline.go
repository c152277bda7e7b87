package study

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/drive/fault"
)

// timelineSection is the section timeline: what happens in a trial.
func timelineSection(t *fault.Timeline) object {
	return object{name: "timeline", fields: []field{
		{name: "duration", required: true, doc: "How long a trial lasts, from the first request.",
			value: durationValue{to: &t.Duration, low: time.Second, high: time.Hour}},
		{name: "steps", doc: "What happens, each at its time. Windows lie between them and are called by their names.",
			value: listValue[fault.Step]{to: &t.Steps, element: stepValue}},
	}}
}

func stepValue(s *fault.Step) value {
	o := object{name: "a step", fields: []field{
		{name: "name", required: true, doc: "Short name, also of the window that begins with the step.", value: textValue{to: &s.Name, pattern: reName, noun: "name", hint: nameHint + ", as first-server-gone"}},
		{name: "at", doc: "When it begins, after the first request; with when, the earliest.", value: durationValue{to: &s.At, high: time.Hour, omitZero: true}},
		{name: "when", doc: "CEL condition on what the clients saw in the last second: error_share, rate, latency_p99 (ms). The step begins when it first holds.", value: textValue{to: &s.When}},
		{name: "every", doc: "How far apart its turns are, if it repeats.", value: durationValue{to: &s.Every, high: time.Hour, omitZero: true}},
		{name: "times", doc: "How many turns it has.", value: wholeValue{to: &s.Times, low: 1, high: fault.MaxOccurrences}},
		{name: "for", doc: "How long until it is undone; the trial's end if left out.", value: durationValue{to: &s.For, high: time.Hour, omitZero: true}},
	}}
	for _, kind := range fault.Kinds() {
		o.fields = append(o.fields, field{name: kind.Name, doc: kind.Doc, value: actionValue{to: &s.Action, kind: kind}})
	}
	return oneAction{o, s}
}

// oneAction is a step's mapping, which says one thing to do.
type oneAction struct {
	fields object
	step   *fault.Step
}

func (v oneAction) decode(d *decoder, n *node) {
	v.fields.decode(d, n)
	said := 0
	for _, k := range n.keys {
		if has(fault.KindNames(), k.name) {
			said++
		}
	}
	if said > 1 {
		p := fault.OneAction(v.step.Name)
		d.fail(n.pos, CodeConflict, p.Hint, "%s", p.Text)
	}
}

func (v oneAction) encode() *node { return v.fields.encode() }

func (v oneAction) schema() *jsonschema.Schema { return v.fields.schema() }

// actionValue is what a step does, if it is of a kind.
type actionValue struct {
	to   *fault.Action
	kind fault.Kind
}

func (v actionValue) object(a fault.Action) object {
	return object{name: v.kind.Name, flow: !v.kind.Long, fields: actionFields(a.Fields())}
}

func (v actionValue) decode(d *decoder, n *node) {
	*v.to = v.kind.New()
	v.object(*v.to).decode(d, n)
}

func (v actionValue) encode() *node {
	if *v.to == nil || (*v.to).Kind() != v.kind.Name {
		return nil
	}
	if n := v.object(*v.to).encode(); n != nil {
		return n
	}
	return &node{kind: mapping, style: styleFlow}
}

func (v actionValue) schema() *jsonschema.Schema { return v.object(v.kind.New()).schema() }

// actionFields reads, writes and describes what package fault says of an
// action.
func actionFields(all []fault.Field) []field {
	out := make([]field, len(all))
	for i, f := range all {
		out[i] = field{name: f.Name, doc: f.Doc, required: f.Required, value: actionField(f.Value)}
	}
	return out
}

func actionField(v fault.Value) value {
	switch v := v.(type) {
	case fault.Text:
		return textValue{to: v.To, oneOf: v.OneOf}
	case fault.Version:
		return textValue{to: v.To, pattern: reVersion, noun: "version", hint: "use a full version, as 1.39.0"}
	case fault.Namespace:
		return textValue{to: v.To, pattern: reLabel, noun: "namespace", hint: namespaceHint}
	case fault.Service:
		hint := "use the name of a service of the graph"
		if v.Clients {
			hint += ", or " + fault.LoadService
		}
		return textValue{to: v.To, pattern: reLabel, noun: "service", hint: hint}
	case fault.Count:
		return wholeValue{to: v.To, low: 1, high: v.Most}
	case fault.Flag:
		return flagValue{v.To}
	case fault.Share:
		return portionValue{to: v.To}
	case fault.Number:
		return floatValue{to: v.To, high: v.Most}
	case fault.Time:
		return durationValue{to: v.To, high: v.Most, omitZero: true}
	case fault.Bits:
		return bitsValue{v.To}
	case fault.Manifests:
		return manifestsValue{v.To}
	case fault.Objects:
		return listValue[fault.ObjectRef]{to: v.To, element: func(r *fault.ObjectRef) value {
			return object{name: "an object", flow: true, fields: actionFields(r.Fields())}
		}}
	case fault.Behaviours:
		return behaviour(v.To)
	}
	panic(fmt.Sprintf("study: no field can be a %T", v)) // a type of package fault that is not above
}

// bitsValue is a number of bits per second with its unit; 0 left out.
type bitsValue struct{ to *int64 }

var bitUnits = []struct {
	name string
	one  float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

func (v bitsValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	const hint = "as 1mbit or 500kbit"
	m := reUnit.FindStringSubmatch(text)
	if m == nil {
		d.fail(n.pos, CodeInvalid, hint, "%q is no rate", clip(text, 40))
		return
	}
	value, c := number(m[1])
	if c != nil {
		d.complain(n.pos, c)
		return
	}
	for _, u := range bitUnits {
		if u.name == m[2] && value*u.one >= 8000 && value*u.one <= 1e12 {
			*v.to = int64(value * u.one)
			return
		}
	}
	d.fail(n.pos, CodeInvalid, hint+", from 8kbit to 1000gbit", "%q is no rate", clip(text, 40))
}

func (v bitsValue) encode() *node {
	for _, u := range bitUnits {
		if one := int64(u.one); *v.to > 0 && *v.to%one == 0 {
			return plainNode(fmt.Sprint(*v.to/one) + u.name)
		}
	}
	return nil
}

func (v bitsValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)?(bit|kbit|mbit|gbit)$`, Examples: []any{"1mbit"}}
}

// manifestsValue is text that holds objects of the Kubernetes API.
type manifestsValue struct{ to *[]map[string]any }

func (v manifestsValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	const hint = "manifests as kubectl apply takes them, after apply: |"
	decoder := yaml.NewDecoder(strings.NewReader(text), yaml.UseJSONUnmarshaler())
	for {
		var one map[string]any
		err := decoder.Decode(&one)
		if err != nil && err.Error() == "EOF" {
			break
		}
		if err != nil {
			d.fail(n.pos, CodeConflict, hint, "no manifest: %s", firstLine(err.Error()))
			return
		}
		if one == nil {
			continue
		}
		meta, _ := one["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		kind, _ := one["kind"].(string)
		if version, _ := one["apiVersion"].(string); version == "" || kind == "" || name == "" {
			d.fail(n.pos, CodeMissing, hint, "manifest %d lacks apiVersion, kind or metadata.name", len(*v.to)+1)
			return
		}
		*v.to = append(*v.to, one)
	}
	if len(*v.to) == 0 {
		d.fail(n.pos, CodeInvalid, hint, "there is no manifest")
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (v manifestsValue) encode() *node {
	if len(*v.to) == 0 {
		return nil
	}
	var parts []string
	for _, one := range *v.to {
		text, err := yaml.Marshal(one)
		if err != nil { // it came from YAML
			panic(err)
		}
		parts = append(parts, strings.TrimSpace(string(text)))
	}
	return textNode(strings.Join(parts, "\n---\n"))
}

func (v manifestsValue) schema() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
