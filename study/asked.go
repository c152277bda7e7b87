package study

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// flagged notes which factors --set flags give levels, in settings or in factors.
func (d *decoder) flagged() map[string]Pos {
	out := map[string]Pos{}
	for _, name := range []string{"settings", "factors"} {
		section := d.root.get(name)
		if section == nil {
			continue
		}
		for i, k := range section.keys {
			if pos := section.values[i].pos; strings.HasPrefix(pos.File, "--set ") {
				out[k.name] = pos
			}
		}
	}
	return out
}

// Unmeasured says which levels that --set flags ask for are in effect in no cell, why, and
// in its hints what to do about it.
func (p *Plan) Unmeasured() []error {
	levels := p.inEffect()
	var out []error
	for _, f := range p.Study.Kind.Factors() {
		pos, ok := p.Study.flagged[f.Name]
		if !ok {
			continue
		}
		asked := p.Study.varied(f.Name)
		if asked == nil {
			asked = []string{p.Study.Settings[f.Name]}
		}
		in := levels[f.Name]
		lacking := slices.DeleteFunc(slices.Clone(asked), func(level string) bool {
			return has(in, level) || len(in) == 0 && level == f.Default
		})
		if len(lacking) == 0 {
			continue
		}
		why, hint := p.whyUnmeasured(f, lacking[0], in)
		out = append(out, pos.Errorf(hint, "no cell has %s %s: %s", f.Name, strings.Join(lacking, " or "), why))
	}
	return out
}

// whyUnmeasured says why a level of a factor is in effect in no cell, given those that
// are, and what to do about it.
func (p *Plan) whyUnmeasured(f Factor, level string, in []string) (why, hint string) {
	setters := p.setters(f.Name)
	all := len(setters) > 0 && len(setters) == len(p.variants())
	s := p.Study
	switch {
	case all && s.Hops != nil:
		return "hops set it in every cell", "leave it out"
	case all && s.Bill != nil:
		return "the bill's base or parts set it in every cell", "--set bill.base." + f.Name + "=" + level
	case all && len(setters) == 1:
		why = "variant " + setters[0] + " sets it itself"
	case all:
		why = "every variant sets it itself"
	case len(in) == 0:
		return "it means nothing in any cell", "leave it out, or have cells in which it does; " + f.Name + " is: " + f.Doc
	default:
		return "those there are have " + strings.Join(in, ", "), "see what else decides on it; " + f.Name + " is: " + f.Doc
	}
	return why, "--set variants." + setters[0] + "." + f.Name + "=" + level
}

// noBaseline says what of the baseline is in no cell, so that nothing can be compared
// with it; or, where all its levels are, that their combination is not.
func (p *Plan) noBaseline(cell, against record.Cell) complaint {
	var lacking, hints []string
	for _, factor := range slices.Sorted(maps.Keys(p.Study.Baseline)) {
		level, in := p.Study.Baseline[factor], []string(nil)
		for _, requested := range p.requested[:p.given] {
			if l := requested[factor]; !has(in, l) {
				in = append(in, l)
			}
		}
		if has(in, level) {
			continue
		}
		lacking = append(lacking, factor+": "+level)
		if len(p.setters(factor)) > 0 {
			hints = append(hints, "measure a variant with "+factor+": "+level)
		} else {
			hints = append(hints, "--set "+factor+"=["+strings.Join(append([]string{level}, in...), ",")+"]")
		}
	}
	if len(lacking) == 0 {
		return complaint{
			msg:  fmt.Sprintf("cell %s would be compared with %s, which is not measured", p.Label(cell), p.Label(against)),
			hint: "do not exclude it, or --set baseline={} to compare nothing"}
	}
	return complaint{
		msg:  fmt.Sprintf("{%s} is not measured, and cell %s would be compared with it", strings.Join(lacking, ", "), p.Label(cell)),
		hint: strings.Join(hints, " ") + ", or --set baseline={} to compare nothing"}
}
