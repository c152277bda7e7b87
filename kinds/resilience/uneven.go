package resilience

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// uneven notes comparisons of requests carried by ztunnel or a waypoint with requests of sidecars
// that have levers, since the levers contribute to the difference. Notes common to several
// comparisons appear once, with the first.
func uneven(p *study.Plan) []error {
	type note struct {
		key, text, hint string
		more            int
	}
	var notes []note
	for _, cell := range p.Cells {
		base, ok := p.BaselineOf(cell)
		if !ok {
			continue
		}
		carried, beside := cell, leversOf(p, cell, base)
		text := p.Label(cell) + " is compared with " + p.Label(base) + ", which has " + listed(beside.have)
		if len(beside.have) == 0 {
			carried, beside = base, leversOf(p, base, cell)
			text = p.Label(cell) + ", which has " + listed(beside.have) + ", is compared with " + p.Label(base)
		}
		if len(beside.have) == 0 {
			continue
		}
		key := carried[study.FactorSidecars] + " " + listed(beside.have)
		if k := slices.IndexFunc(notes, func(n note) bool { return n.key == key }); k >= 0 {
			notes[k].more++
			continue
		}
		notes = append(notes, note{key: key, text: text + ": " + strings.Join(beside.why, ", and "),
			hint: "the levers also contribute to the difference: to compare only what carries the requests, compare cells with " + strings.Join(beside.alike, ", ")})
	}
	var out []error
	for _, n := range notes {
		if n.more > 0 {
			n.text += fmt.Sprintf("; the same applies to %d more", n.more)
		}
		out = append(out, errs.WithHint(errs.Usage("%s", n.text), "%s", n.hint))
	}
	return out
}

// leverage describes the levers that sidecars have in one cell and that another cell's ztunnel or
// waypoint lacks: their levels, why the latter has none, and the closest equivalent levels.
type leverage struct {
	have, why, alike []string
}

// leversOf returns the levers of a cell with sidecars compared with a cell carried by ztunnel or a
// waypoint; none for other pairs of cells.
func leversOf(p *study.Plan, carried, other record.Cell) leverage {
	var out leverage
	if !study.Ambient(carried) || study.Ambient(other) {
		return out
	}
	for _, f := range Kind.Factors() {
		level, near, reason := other[f.Name], f.Default, "ztunnel has no such lever"
		said := level
		switch {
		case f.Name == study.FactorMTLS && level != study.MTLSOff, f.Name != study.FactorMTLS && f.Scope != study.ScopeMesh:
			continue
		case f.Name == study.FactorMTLS:
			reason = "ztunnel always encrypts"
		case study.Waypoint(carried):
			reason = "a waypoint does what Istio does by default, retries included"
		case f.Name == study.FactorRetries && level == f.Default && !retriesByDefault(p, other):
			continue
		case f.Name == study.FactorRetries: // ztunnel does not retry
			if near = study.LevelOff; level == f.Default {
				said += " (Istio makes two)"
			}
		}
		if level == "" || level == study.NotApplicable || level == near {
			continue
		}
		out.have, out.alike = append(out.have, f.Name+" "+said), append(out.alike, f.Name+": "+near)
		if !slices.Contains(out.why, reason) {
			out.why = append(out.why, reason)
		}
	}
	return out
}

// retriesByDefault reports whether sidecars retry although the cell does not set retries. Istio's
// do, which matters if a step makes requests fail.
func retriesByDefault(p *study.Plan, cell record.Cell) bool {
	return cell[study.FactorMesh] == study.MeshIstio && len(Of(p.Study).Timeline.Steps) > 0
}

// listed joins words with commas, and "and" before the last.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
