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

// MeasureAgent adds the use of the mesh's agent, if the way needs one, to a node's use without
// requests. points are the use of one agent in each trial, by unit, in cores or bytes. An
// agent carries no requests and serves all pods of its node, so a node takes the mean of a
// unit's trials, whatever their rate or number of pods. Call it after measuring the proxies.
// If a unit with shares has no such trial, the way's figures omit the agent, and a note says
// so.
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

// measured reports whether a unit knows the use of a way's proxies.
func measured(s sizing.Share) bool {
	return stat.Finite(s.Pod.Curve.At(0) + s.Node.Curve.At(0) + s.Waypoint.Curve.At(0))
}

// agentShare returns a node's share if a way has an agent there but no proxy.
func (w *Way) agentShare(u Use, shares []sizing.Share) (record.Priced, bool) {
	_, onNodes := w.at(record.PlaceNode)
	if onNodes || w.agent[u.Of] == nil {
		return record.Priced{}, false
	}
	return pricedShare(shares, u.total, 1, func(s sizing.Share) float64 { return s.Agent }), true
}

// agentNotes says which figures include the mesh's node agent and which do not.
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
