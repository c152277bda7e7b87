package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Uneven says where requests that ztunnel or a waypoint carries are compared with those of
// sidecars that have levers: the difference is the levers' too. What is the same of
// several comparisons is said of the first.
func (p *Plan) Uneven() []error {
	if p.Study.Kind != Resilience {
		return nil
	}
	type note struct {
		key, text, hint string
		more            int
	}
	var notes []note
	for i, cell := range p.Cells {
		if p.baseline[i] < 0 {
			continue
		}
		base := p.Cells[p.baseline[i]]
		carried := cell
		levers, why, alike := beside(cell, base)
		text := p.Label(cell) + " is compared with " + p.Label(base) + ", which has " + levers
		if levers == "" {
			carried = base
			levers, why, alike = beside(base, cell)
			text = p.Label(cell) + ", which has " + levers + ", is compared with " + p.Label(base)
		}
		if levers == "" {
			continue
		}
		key := carried[FactorSidecars] + " " + levers
		if k := slices.IndexFunc(notes, func(n note) bool { return n.key == key }); k >= 0 {
			notes[k].more++
			continue
		}
		notes = append(notes, note{key: key, text: text + ": " + why,
			hint: "the difference is of both; to compare who carries the requests alone, have sidecars with " + alike})
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

// beside lists the levers that sidecars have in one cell, and that ztunnel or the waypoint
// of another does not have, why, and the levels that come nearest to what those do; "" if
// there are none.
func beside(carried, other record.Cell) (levers, why, alike string) {
	if !Ambient(carried) || Ambient(other) {
		return "", "", ""
	}
	var have, reasons, nearest []string
	for _, f := range Resilience.Factors() {
		level, near, reason := other[f.Name], f.Default, "ztunnel has no such lever"
		switch {
		case f.Name == FactorMTLS && level != MTLSOff, f.Name != FactorMTLS && f.Scope != ScopeMesh:
			continue
		case f.Name == FactorMTLS:
			reason = "ztunnel always encrypts"
		case Waypoint(carried):
			reason = "a waypoint does what Istio does by default, retries included"
		case f.Name == FactorRetries: // ztunnel makes none
			near = LevelOff
		}
		if level == "" || level == NotApplicable || level == f.Default || level == near {
			continue
		}
		have, nearest = append(have, f.Name+" "+level), append(nearest, f.Name+": "+near)
		if !has(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(have, ", "), strings.Join(reasons, ", and "), strings.Join(nearest, ", ")
}
