package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// uneven says where requests that ztunnel or a waypoint carries are compared with those of
// sidecars that have levers: the difference is the levers' too. What is the same of
// several comparisons is said of the first.
func (p *Plan) uneven() []error {
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
		carried, beside := cell, p.levers(cell, base)
		text := p.Label(cell) + " is compared with " + p.Label(base) + ", which has " + listed(beside.have)
		if len(beside.have) == 0 {
			carried, beside = base, p.levers(base, cell)
			text = p.Label(cell) + ", which has " + listed(beside.have) + ", is compared with " + p.Label(base)
		}
		if len(beside.have) == 0 {
			continue
		}
		key := carried[FactorSidecars] + " " + listed(beside.have)
		if k := slices.IndexFunc(notes, func(n note) bool { return n.key == key }); k >= 0 {
			notes[k].more++
			continue
		}
		notes = append(notes, note{key: key, text: text + ": " + strings.Join(beside.why, ", and "),
			hint: "the difference is also the levers': to compare who carries the requests alone, compare cells with " + strings.Join(beside.alike, ", ")})
	}
	var out []error
	for _, n := range notes {
		if n.more > 0 {
			n.text += fmt.Sprintf("; the same holds of %d more", n.more)
		}
		out = append(out, errs.WithHint(errs.Usage("%s", n.text), "%s", n.hint))
	}
	return out
}

// leverage are the levers that sidecars have in one cell, and that ztunnel or the waypoint
// of another does not have: how they are set, why those have none, and the levels that come
// nearest to what those do.
type leverage struct {
	have, why, alike []string
}

// levers are those of a cell with sidecars beside one that ztunnel or a waypoint
// carries; none if the cells are others.
func (p *Plan) levers(carried, other record.Cell) leverage {
	var out leverage
	if !Ambient(carried) || Ambient(other) {
		return out
	}
	for _, f := range Resilience.Factors() {
		level, near, reason := other[f.Name], f.Default, "ztunnel has no such lever"
		said := level
		switch {
		case f.Name == FactorMTLS && level != MTLSOff, f.Name != FactorMTLS && f.Scope != ScopeMesh:
			continue
		case f.Name == FactorMTLS:
			reason = "ztunnel always encrypts"
		case Waypoint(carried):
			reason = "a waypoint does what Istio does by default, retries included"
		case f.Name == FactorRetries && level == f.Default && !p.retriesByDefault(other):
			continue
		case f.Name == FactorRetries: // ztunnel makes none
			if near = LevelOff; level == f.Default {
				said += " (Istio makes two)"
			}
		}
		if level == "" || level == NotApplicable || level == near {
			continue
		}
		out.have, out.alike = append(out.have, f.Name+" "+said), append(out.alike, f.Name+": "+near)
		if !slices.Contains(out.why, reason) {
			out.why = append(out.why, reason)
		}
	}
	return out
}

// retriesByDefault says that sidecars retry although a cell does not speak of it: Istio's
// do, which matters where something happens that has requests fail.
func (p *Plan) retriesByDefault(cell record.Cell) bool {
	return cell[FactorMesh] == MeshIstio && len(ScenarioIn(p.Study).Timeline.Steps) > 0
}

// listed are words with commas between them, and "and" before the last.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
