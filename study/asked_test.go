package study

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// A --set flag that changes nothing is named, and so is a level of which no cell has any;
// a flag that the hint offers is one that the study takes, and it changes
// something.
func TestUnmeasured(t *testing.T) {
	const (
		carried = `graph: {services: {a: {calls: [{to: b}]}, b: {replicas: 2}}}
load: {to: a}
settings: {rate: 10}
timeline: {duration: 20s, steps: [{name: end, at: 1s, process: {of: ztunnel, do: kill}}]}
`
		killed = carried + "variants: {killed: {sidecars: ambient}, quiet: {sidecars: ambient, skip: end}}\n"
		ended  = carried + "variants: {killed: {sidecars: ambient}, again: {sidecars: waypoint}}\n"
		rates  = "variants: {usual: {}, few: {rate: 50}, many: {rate: 2000}}\nfactors: {sidecars: [none, both]}\n"
		own    = "variants: {slow: {rate: 50}, fast: {rate: 2000}}\n"
		bursts = "variants: {most: {rate: max}, few: {rate: 50, arrival: uniform}}\n"
		priced = "bill: {base: {telemetry: access-log-text}, parts: {a: {filters: lua}, b: {filters: jwt}}}\n"
	)
	for _, c := range []struct{ text, set, want, hint string }{ // no want: nothing is said
		{own, "rate=100", "it changes nothing, as every variant sets rate itself", "--set variants.slow.rate=100, for variant slow alone"},
		// The level of another variant has an effect no more than any.
		{own, "rate=50", "it changes nothing, as every variant sets rate itself", "leave it out, or measure a variant that does not set it; rate 50 is that of slow"},
		{rates, "variant=[many] rate=500", "it changes nothing, as variant many sets rate itself", "--set variants.many.rate=500 in its place"},
		{rates, "variant=many rate=500", "it changes nothing, as variant many sets rate itself", "--set variants.many.rate=500 in its place"},
		{killed, "sidecars=both", "it changes nothing, as every variant sets sidecars itself", "--set variants.quiet.sidecars=both, for variant quiet alone"},
		{ended, "sidecars=both", "it changes nothing, as every variant sets sidecars itself", "leave it out, or measure a variant that does not set it"},
		{priced, "telemetry=off", "it changes nothing, as the bill's base or parts set telemetry in every cell", "--set bill.base.telemetry=off in its place"},
		{"hops: {}\n", "sidecars=none", "it changes nothing, as hops set sidecars in every cell", "leave it out"},
		// What variants set themselves does not count.
		{bursts, "arrival=uniform", "no cell of a variant that does not set it has arrival uniform: it means nothing in any of them", "leave it out, or have cells in which it does; arrival is: How"},
		{"factors: {sidecars: [none, server]}\n", "mtls=strict", "no cell has mtls strict: those there are have permissive", "see what else decides on it; mtls is: What"},
		{"settings: {sidecars: none}\n", "filters=lua", "no cell has filters lua: it means nothing in any cell", "leave it out, or have cells in which it does; filters is: "},

		{rates, "rate=500", "", ""},
		{rates, "payload=1MiB", "", ""},
		{rates, "variant=[usual] rate=[100,500]", "", ""},
		{"settings: {sidecars: none}\n", "filters=none", "", ""},
		{"", "rate=[100,max]", "", ""},
	} {
		sets := strings.Fields(c.set)
		said := plan(t, c.text, sets...).Unmeasured()
		if c.want == "" {
			if len(said) > 0 {
				t.Errorf("--set %s: %v", c.set, said)
			}
			continue
		}
		if len(said) != 1 || said[0].Error() != "--set "+sets[len(sets)-1]+": "+c.want || !strings.HasPrefix(errs.Hint(said[0]), c.hint) {
			t.Errorf("--set %s: %v, hint %q; want %s (%s)", c.set, said, errs.Hint(said[0]), c.want, c.hint)
			continue
		}
		flag, _, is := strings.Cut(strings.TrimSuffix(errs.Hint(said[0]), " in its place"), ", for variant")
		if !is && flag == errs.Hint(said[0]) {
			continue
		}
		sets[len(sets)-1] = strings.TrimPrefix(flag, "--set ")
		taken := plan(t, c.text, sets...)
		if said := taken.Unmeasured(); len(said) > 0 {
			t.Errorf("%s: %v", flag, said)
		}
		if without := plan(t, c.text, sets[:len(sets)-1]...); labelled(taken) == labelled(without) {
			t.Errorf("%s changes nothing", flag)
		}
	}
}

// labelled are a plan's cells with all their levels.
func labelled(p *Plan) string {
	var out []string
	for _, cell := range p.Cells {
		out = append(out, cell.Key())
	}
	return strings.Join(out, "\n")
}

// What there is where a variant says nothing is named, but for what all cells have.
func TestOtherwise(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"variants: {usual: {}, few: {rate: 50}, large: {rate: 5, payload: 1MiB}}\n", "rate 1000; payload 1KiB"},
		{"variants: {few: {rate: 50}, many: {rate: 2000}}\n", ""},
		{"variants: {usual: {}, few: {rate: 1000, payload: 2KiB}}\n", "payload 1KiB"}, // the rate is fixed
		{"variants: {usual: {}, few: {rate: 50}}\nfactors: {variant: [few]}\n", ""},
		{"variants: {usual: {}, all: {rate: max, arrival: poisson}, even: {arrival: uniform}}\n", "rate 1000; arrival poisson"},
		{"variants: {plain: {sidecars: none}, one: {generators: 2}}\n", "sidecars both; generators 1"},
	} {
		var got []string
		for _, f := range plan(t, c.text).Otherwise() {
			got = append(got, f.Factor+" "+strings.Join(f.Levels, ","))
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s%s, want %s", c.text, got, c.want)
		}
	}
}
