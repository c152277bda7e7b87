package carrying

import (
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/sizing"
	"github.com/meshtrial/meshtrial/study"
)

// MeasureAgent adds to what a node takes of something without requests what the mesh's agent
// there does, if the way needs one: points are what one agent used in each trial, by unit,
// in cores or bytes. It carries no requests and serves all pods of its node. So a node takes
// the mean of a unit's trials, whatever their rate or number of pods. Call it once
// proxies were measured. Where a unit that has shares has no such trial, the way's figures
// are without the agent, and a note says so.
func (w *Way) MeasureAgent(u Use, points []stat.FitPoint) {
	shares := w.by[u.Of].Plain
	if !w.NeedsAgent {
		return
	}
	each := unitMeans(len(shares), points)
	any := false
	for unit, s := range shares {
		known := stat.Finite(each[unit])
		if any = any || known; !known && measured(s) {
			return
		}
	}
	if !any {
		return
	}
	for unit := range shares {
		shares[unit].Agent = each[unit]
	}
	if w.agent == nil {
		w.agent = map[string][]float64{}
	}
	w.agent[u.Of] = each
}

// measured says that a unit knows what a way's proxies take.
func measured(s sizing.Share) bool {
	return stat.Finite(s.Pod.Curve.At(0) + s.Node.Curve.At(0) + s.Waypoint.Curve.At(0))
}

// agentShare is what a node takes of something where a way has no proxy there, and yet an agent.
func (w *Way) agentShare(u Use, shares []sizing.Share) (record.Priced, bool) {
	_, onNodes := w.at(record.PlaceNode)
	if onNodes || w.agent[u.Of] == nil {
		return record.Priced{}, false
	}
	return pricedShare(shares, u.total, 1, func(s sizing.Share) float64 { return s.Agent }), true
}

// agentNotes say in which figures the mesh's node agent is, and in which it is not.
func (z *Ways) agentNotes() (out []note.Note) {
	var counted, missing, without []string
	for _, w := range z.All {
		var figures, lacks []string
		for _, u := range Uses {
			each, measured := w.by[u.Of], w.agent[u.Of]
			switch {
			case each.Plain == nil:
			case measured == nil:
				lacks = append(lacks, u.words)
			default:
				if p := pricedMean(measured, u.total); p.Verdict == record.VerdictMeasured {
					figures = append(figures, words.Quantity(p.Estimate, u.total))
				}
			}
		}
		_, sidecars := w.at(record.PlaceSidecar)
		switch {
		case !w.NeedsAgent && sidecars && w.Name == SidecarsOf(study.MeshIstio):
			without = append(without, w.Name)
		case w.NeedsAgent && len(lacks) > 0:
			missing = append(missing, w.Name+" ("+strings.Join(lacks, ", ")+")")
		case w.NeedsAgent && len(figures) > 0:
			counted = append(counted, w.Name+" ("+strings.Join(figures, ", ")+")")
		case w.NeedsAgent:
			counted = append(counted, w.Name)
		}
	}
	if len(counted) > 0 {
		out = append(out, NoteAgent.Of(words.List(counted)))
	}
	if len(missing) > 0 {
		out = append(out, NoteNoAgent.Of(words.List(missing)))
	}
	if len(counted)+len(missing) > 0 && len(without) > 0 {
		out = append(out, noteAgentless.Of())
	}
	return out
}
