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
	type comparison struct {
		carried, other record.Cell
		levers         leverage
		more           int // comparisons of which the same is said
	}
	var all []comparison
	for _, cell := range p.Cells {
		base, ok := p.BaselineOf(cell)
		if !ok {
			continue
		}
		c := comparison{carried: cell, other: base}
		if study.Ambient(base) {
			c.carried, c.other = base, cell
		}
		if c.levers = leversOf(p, c.carried, c.other); len(c.levers.have) == 0 {
			continue
		}
		k := slices.IndexFunc(all, func(o comparison) bool {
			return o.carried[study.FactorSidecars] == c.carried[study.FactorSidecars] && slices.Equal(o.levers.have, c.levers.have)
		})
		if k >= 0 {
			all[k].more++
		} else {
			all = append(all, c)
		}
	}
	var out []error
	for _, c := range all {
		text := fmt.Sprintf("%s is compared with %s, which has %s: %s", p.Label(c.carried), p.Label(c.other), strings.Join(c.levers.have, ", "), strings.Join(c.levers.why, ", and "))
		if c.more > 0 {
			text += fmt.Sprintf("; the same applies to %d more", c.more)
		}
		out = append(out, errs.WithHint(errs.Usage("%s", text), "the levers also contribute to the difference: to compare only what carries the requests, compare cells with %s", strings.Join(c.levers.alike, ", ")))
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
	// Istio's sidecars retry by default, which matters if a step makes requests fail.
	retry := other[study.FactorMesh] == study.MeshIstio && len(Of(p.Study).Timeline.Steps) > 0
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
		case f.Name == study.FactorRetries && level == f.Default && !retry:
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
