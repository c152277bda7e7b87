package study

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/fault"
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
	a := &s.Action
	return object{name: "a step", fields: []field{
		{name: "name", required: true, doc: "Short name, also of the window that begins with the step.", value: textValue{to: &s.Name, pattern: reName, hint: "lower-case letters, digits and dashes, as first-server-gone"}},
		{name: "at", doc: "When it begins, after the first request; with when, the earliest.", value: durationValue{to: &s.At, high: time.Hour, omitZero: true}},
		{name: "when", doc: "CEL condition on what the clients saw in the last second: error_share, rate, latency_p99 (ms). The step begins when it first holds.", value: textValue{to: &s.When}},
		{name: "every", doc: "How far apart its turns are, if it repeats.", value: durationValue{to: &s.Every, high: time.Hour, omitZero: true}},
		{name: "times", doc: "How many turns it has.", value: wholeValue{to: &s.Times, low: 1, high: fault.MaxOccurrences}},
		{name: "for", doc: "How long until it is undone; the trial's end if left out.", value: durationValue{to: &s.For, high: time.Hour, omitZero: true}},
		{name: "remove", doc: "Takes replicas from a service.", value: part(&a.Remove, func(r *fault.Replicas) object { return replicas("remove", r) })},
		{name: "add", doc: "Gives a service more replicas.", value: part(&a.Add, func(r *fault.Replicas) object { return replicas("add", r) })},
		{name: "restart", doc: "Replaces every pod of a service, a few at a time, as kubectl rollout restart does.", value: part(&a.Restart, func(r *fault.Restart) object {
			return object{name: "restart", flow: true, fields: []field{serviceField(&r.Service),
				{name: "proxy", doc: "Version of Envoy in the new pods' sidecars; as before if left out.", value: textValue{to: &r.Proxy, pattern: reVersion, hint: "as 1.39.0"}}}}
		})},
		{name: "worker", doc: "Changes how replicas of a service behave, all in one change.", value: part(&a.Worker, func(w *fault.Worker) object {
			return object{name: "worker", fields: []field{serviceField(&w.Service), pickField(&w.Pick),
				{name: "set", required: true, doc: "What changes; the rest stays as it is.", value: behaviour(&w.Set)}}}
		})},
		{name: "process", doc: "Kills or pauses processes.", value: part(&a.Process, func(p *fault.Process) object {
			return object{name: "process", flow: true, fields: []field{
				{name: "of", required: true, doc: "What kind of process.", value: textValue{to: &p.Of, oneOf: []string{fault.OfControlPlane, fault.OfProxy, fault.OfAgent, fault.OfWorker}}},
				{name: "service", doc: "Whose; not for istiod.", value: textValue{to: &p.Service, pattern: reLabel, hint: "a service of the graph"}}, pickField(&p.Pick),
				{name: "do", required: true, doc: "kill (SIGKILL, and istiod is kept away until the step ends) or pause (SIGSTOP until it ends).", value: textValue{to: &p.Do, oneOf: []string{fault.DoKill, fault.DoPause}}},
			}}
		})},
		{name: "network", doc: "Disturbs packets from one service's pods to another's.", value: part(&a.Network, func(n *fault.Network) object {
			return object{name: "network", flow: true, fields: []field{
				{name: "from", required: true, doc: "Service that sends, or clients.", value: textValue{to: &n.From, pattern: reLabel, hint: "a service of the graph, or clients"}},
				{name: "to", required: true, doc: "Service that receives.", value: textValue{to: &n.To, pattern: reLabel, hint: "a service of the graph"}}, pickField(&n.Pick),
				{name: "cut", doc: "Drops every packet.", value: flagValue{&n.Cut}},
				{name: "lose", doc: "Drops a share of the packets.", value: portionValue{&n.Lose}},
				{name: "delay", doc: "Holds every packet for so long.", value: durationValue{to: &n.Delay, high: 10 * time.Second, omitZero: true}},
				{name: "rate", doc: "Lets so many bits a second pass, as 1mbit.", value: bitsValue{&n.Rate}},
			}}
		})},
		{name: "config", doc: "Changes objects of the Kubernetes API.", value: part(&a.Config, func(c *fault.Config) object {
			return object{name: "config", fields: []field{
				{name: "apply", doc: "Manifests (YAML, separated by ---). Objects without a namespace go to the trial's own. When the step ends they are as they were.", value: manifestsValue{&c.Apply}},
				{name: "delete", doc: "Objects that go.", value: listValue[fault.ObjectRef]{to: &c.Delete, element: objectRef}},
				{name: "rejected", doc: "Whether proxies are expected to reject it: the proof is then that they did.", value: flagValue{&c.Rejected}},
			}}
		})},
		{name: "load", doc: "Changes the clients' rate.", value: part(&a.Load, func(l *fault.Load) object {
			return object{name: "load", flow: true, fields: []field{
				{name: "rate", required: true, doc: "Requests a second in all.", value: floatValue{to: &l.Rate, high: maxRate}},
				{name: "announced", doc: "How long before the step the service is given more replicas; unannounced if left out.", value: durationValue{to: &l.Announced, high: time.Hour, omitZero: true}},
				{name: "service", doc: "The service that is prepared (announced).", value: textValue{to: &l.Service, pattern: reLabel, hint: "a service of the graph"}},
				{name: "replicas", doc: "Its replicas then (announced).", value: wholeValue{to: &l.Replicas, low: 1, high: maxReplicas}},
			}}
		})},
		{name: "certificates", doc: "Has workload certificates replaced, or lets them run out.", value: part(&a.Certificates, func(c *fault.Certificates) object {
			return object{name: "certificates", flow: true, fields: []field{serviceField(&c.Service),
				{name: "do", required: true, doc: "rotate or expire.", value: textValue{to: &c.Do, oneOf: []string{fault.DoRotate, fault.DoExpire}}}}}
		})},
	}}
}

// maxReplicas bounds the pods of a service.
const maxReplicas = 1000

func replicas(name string, r *fault.Replicas) object {
	return object{name: name, flow: true, fields: []field{serviceField(&r.Service),
		{name: "replicas", doc: "How many; 1 if left out.", value: wholeValue{to: &r.Replicas, low: 1, high: maxReplicas}},
		{name: "abrupt", doc: "Whether pods end at once, without the time to drain (remove).", value: flagValue{&r.Abrupt}},
	}}
}

func serviceField(to *string) field {
	return field{name: "service", required: true, doc: "A service of the graph.", value: textValue{to: to, pattern: reLabel, hint: "a service of the graph"}}
}

func pickField(to *int) field {
	return field{name: "pick", doc: "How many of its pods, the first by name; all if left out.", value: wholeValue{to: to, low: 1, high: maxReplicas}}
}

func objectRef(r *fault.ObjectRef) value {
	return object{name: "an object", flow: true, fields: []field{
		{name: "apiVersion", required: true, doc: "As in its manifest.", value: textValue{to: &r.APIVersion}},
		{name: "kind", required: true, doc: "As in its manifest.", value: textValue{to: &r.Kind}},
		{name: "namespace", doc: "The trial's own if left out.", value: textValue{to: &r.Namespace, pattern: reLabel, hint: namespaceHint}},
		{name: "name", required: true, doc: "Its name.", value: textValue{to: &r.Name}},
	}}
}

// partValue is a mapping that need not be there.
type partValue[T any] struct {
	to     **T
	object func(*T) object
}

func part[T any](to **T, o func(*T) object) value { return partValue[T]{to, o} }

func (v partValue[T]) decode(d *decoder, n *node) {
	*v.to = new(T)
	v.object(*v.to).decode(d, n)
}

func (v partValue[T]) encode() *node {
	if *v.to == nil {
		return nil
	}
	if n := v.object(*v.to).encode(); n != nil {
		return n
	}
	return &node{kind: mapping, style: styleFlow}
}

func (v partValue[T]) schema() *jsonschema.Schema { return v.object(new(T)).schema() }

// flagValue is true or false, false left out.
type flagValue struct{ to *bool }

func (v flagValue) decode(d *decoder, n *node) { boolValue(v).decode(d, n) }

func (v flagValue) encode() *node {
	if !*v.to {
		return nil
	}
	return boolValue(v).encode()
}

func (v flagValue) schema() *jsonschema.Schema { return boolValue(v).schema() }

// wholeValue is a whole number, 0 left out.
type wholeValue struct {
	to        *int
	low, high int64
}

func (v wholeValue) decode(d *decoder, n *node) { intValue(v).decode(d, n) }

func (v wholeValue) encode() *node {
	if *v.to == 0 {
		return nil
	}
	return intValue(v).encode()
}

func (v wholeValue) schema() *jsonschema.Schema { return intValue(v).schema() }

// portionValue is a share from 0% to 100%, 0 left out.
type portionValue struct{ to *float64 }

func (v portionValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	r, c := parseRatio(text)
	switch {
	case c != nil:
		d.complain(n.pos, c)
	case r > 1:
		d.fail(n.pos, "", "%s is more than all", text)
	default:
		*v.to = float64(r)
	}
}

func (v portionValue) encode() *node {
	if *v.to == 0 {
		return nil
	}
	return plainNode(Ratio(*v.to).String())
}

func (v portionValue) schema() *jsonschema.Schema { return ratioValue{}.schema() }

// bitsValue is a number of bits a second with its unit; 0 left out.
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
		d.fail(n.pos, hint, "%q is no rate", clip(text, 40))
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
	d.fail(n.pos, hint+", from 8kbit to 1000gbit", "%q is no rate", clip(text, 40))
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
			d.fail(n.pos, hint, "no manifest: %s", firstLine(err.Error()))
			return
		}
		if one == nil {
			continue
		}
		meta, _ := one["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		kind, _ := one["kind"].(string)
		if version, _ := one["apiVersion"].(string); version == "" || kind == "" || name == "" {
			d.fail(n.pos, hint, "manifest %d lacks apiVersion, kind or metadata.name", len(*v.to)+1)
			return
		}
		*v.to = append(*v.to, one)
	}
	if len(*v.to) == 0 {
		d.fail(n.pos, hint, "there is no manifest")
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
