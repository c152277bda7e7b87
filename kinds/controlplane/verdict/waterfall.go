package verdict

import (
	"slices"

	"github.com/meshtrial/meshtrial/kinds/controlplane/stages"
	"github.com/meshtrial/meshtrial/record"
)

// stages fills in the stages of the changes' way, from istiod's log, its metrics and the proxies'
// times. It covers sidecars and gateways; ztunnels receive other types.
func (r *ruling) stages() stages.Waterfall {
	var names []string
	for _, p := range r.seen.Audience.Proxies {
		names = append(names, p.Name+"."+p.Namespace)
	}
	c := r.trial.Control
	w := stages.Make(stages.Input{Events: r.withoutZtunnels(), Proxies: names, Rises: c.Istiod, Logs: r.seen.Logs})
	c.Stages, c.MissingStages, c.Unexplained = w.Stages, w.Missing, w.Unexplained
	return w
}

// withoutZtunnels returns the events reduced to proxies other than ztunnels.
func (r *ruling) withoutZtunnels() []record.Event {
	if !slices.ContainsFunc(r.events, func(e record.Event) bool { return slices.ContainsFunc(e.Markers, record.Marker.OfZtunnels) }) {
		return r.events
	}
	out := slices.Clone(r.events)
	for i := range out {
		out[i].Markers = slices.DeleteFunc(slices.Clone(out[i].Markers), record.Marker.OfZtunnels)
		out[i].Seen = out[i].Seen.Of(func(p int32) bool { return !r.seen.Audience.Ztunnel(p) })
	}
	return out
}

// odd notes anomalies of a waterfall.
func (r *ruling) odd(w stages.Waterfall) {
	if lost, of := stages.LostLines(r.seen.Logs, r.trial.Control.Istiod); lost > 0 {
		r.Warn(noteLostLines, lost, of)
	}
	for _, s := range w.Stages {
		if s.MeanUS < -r.limits.Of(stageEarly) {
			r.Warn(noteStageEarly, s.Name, s.MeanUS/1000)
		}
	}
}
