package resilience

import (
	"time"

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
	return study.Object{Name: v.kind.Name, Flow: !v.kind.Long, Fields: a.Fields()}
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
