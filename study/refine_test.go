package study

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/record"
)

// TestBetween: levels between two others ascend, leave no neighbours further apart than the
// tolerance except for rounding, and are formatted as people write them.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		factor          string
		low, high, near float64
		want            string
	}{
		{"proxies", 1000, 2000, 0.2, "1189 1414 1682"},
		{"proxies", 1, 3, 0.1, "2"},
		{"proxies", 0, 100, 0.1, ""},
		{"change_rate", 2, 8, 0.5, "2.83 4 5.66"},
		{FactorDebounceAfter, 1, 4, 1, "2s"},
		{"istiod_memory", 1 << 30, 4 << 30, 1, "2150000000"},
		{FactorPayload, 1000, 4000, 1, "2000B"},
	} {
		f, _ := FactorByName(c.factor)
		if got := strings.Join(f.between(c.low, c.high, c.near), " "); got != c.want {
			t.Errorf("%s from %v to %v by %v: %s, want %s", c.factor, c.low, c.high, c.near, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f, _ := FactorByName("change_rate")
		low := rapid.Float64Range(0.5, 100).Draw(t, "low")
		high := low * rapid.Float64Range(1.01, 10).Draw(t, "ratio")
		tolerance := rapid.Float64Range(0.05, 1).Draw(t, "tolerance")
		last := low
		for _, level := range f.between(low, high, tolerance) {
			v, ok := f.Value(level)
			again, c := f.Parse(level)
			if !ok || c != nil || again != level || v <= last || v >= high || v > last*(1+tolerance)*1.01 {
				t.Fatalf("%s after %v, up to %v", level, last, high)
			}
			last = v
		}
		if high > last*(1+tolerance)*1.01 {
			t.Fatalf("%v is the last before %v", last, high)
		}
	})
}

const refining = minimalControl + `factors: {proxies: [100, 200, 400], change_rate: [1, 8]}
search:
- {factor: proxies, finding: convergence_p99, bound: 2 s, at: {change_rate: 1}, tolerance: 50%}
- {factor: change_rate, finding: convergence_p99, bound: 2 s, at: {proxies: 100}, tolerance: 50%}
`

// TestApart: a search states its precision, even if its tolerance requires more levels than it
// adds.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		levels, tolerance string
		low, high         float64
	}{
		{"1, 5000", "1%", 0.068, 0.15}, // 128 parts of 6.9%, and whole numbers
		{"1, 3", "1%", 0, 0},
		{"100, 200", "10%", 0.08, 0.1},
		{"1000, 1001", "1%", 0, 0},
	} {
		p := planOf(t, minimalControl+"factors: {proxies: ["+c.levels+"]}\nsearch: [{factor: proxies, finding: convergence_p99, bound: 2 s, tolerance: "+c.tolerance+"}]\n")
		if got := p.Climbs()[0].Apart(p); got < c.low || got > c.high {
			t.Errorf("%s to within %s: %v apart", c.levels, c.tolerance, got)
		}
	}
}

// TestClimbs: a study that searches at certain levels only has the cells at these levels and
// between them.
func TestClimbs(t *testing.T) {
	p := planOf(t, refining)
	var given, refined []string
	for _, cell := range p.Cells {
		name := cell["proxies"] + "x" + cell["change_rate"]
		if p.Refined(cell) {
			refined = append(refined, name)
		} else {
			given = append(given, name)
		}
	}
	if want := []string{"100x1", "100x8", "200x1", "400x1"}; !slices.Equal(given, want) {
		t.Errorf("given %v", given)
	}
	if want := []string{"141x1", "283x1", "100x1.3", "100x1.68", "100x2.18", "100x2.83", "100x3.67", "100x4.76", "100x6.17"}; !slices.Equal(refined, want) {
		t.Errorf("refined %v", refined)
	}
	climbs := p.Climbs()
	if len(climbs) != 2 || len(climbs[0].Cells) != 5 || len(climbs[1].Cells) != 9 {
		t.Fatalf("%+v", climbs)
	}
	for _, c := range climbs {
		for i := 1; i < len(c.Cells); i++ {
			if c.Level(p, c.Cells[i]) <= c.Level(p, c.Cells[i-1]) {
				t.Errorf("%s does not grow", c.Search.Factor)
			}
		}
	}
	if given, halvings := p.Steps(climbs[1]); given != 2 || halvings != 3 {
		t.Errorf("%d levels, %d halvings", given, halvings)
	}
	e := p.Estimate()
	if e.Trials != 8 || e.Min <= 0 || e.Max < e.Min || e.Block > e.Min {
		t.Errorf("%+v", e)
	}
	// The limit also ends a search within a block, even the first.
	stands := p.Study.Blocks.Limit
	p.Study.Blocks.Limit = 0
	free := p.Estimate()
	if free.Fewest != 0 || free.Fits != 0 {
		t.Errorf("without a limit: %+v", free)
	}
	for limit, fits := range map[time.Duration]int{free.Block - 1: 0, free.Block: 1, free.Min - 1: p.Study.Blocks.Min - 1} {
		p.Study.Blocks.Limit = limit
		if e := p.Estimate(); e.Fewest != free.Min || e.Fits != fits {
			t.Errorf("limit %v: %+v, want time for %d blocks", limit, e, fits)
		}
	}
	p.Study.Blocks.Limit = stands
	if again := planOf(t, string(p.Study.Marshal())); !slices.EqualFunc(p.Cells, again.Cells, func(a, b record.Cell) bool { return a.Key() == b.Key() }) {
		t.Errorf("resolved it has other cells: %v", again.Cells)
	}
}

// A search is reported if the variants left by a flag have no cell for it.
func TestSearchOfLeftVariants(t *testing.T) {
	text := minimalControl + "factors: {proxies: [1, 2]}\nvariants: {few: {services: 10}, many: {services: 20}}\n" +
		"search: [{factor: proxies, finding: convergence_p99, bound: 2 s, at: {services: 20}}, {factor: proxies, finding: convergence_p50, bound: 1 s}]\n"
	for set, want := range map[string]string{
		"variant=few":        "--set variant=few: proxies is not searched by convergence_p99: no cell has {services: 20}",
		"variant=many":       "",
		"variant=[few,many]": "",
	} {
		if said := planOf(t, text, set).Unmeasured(); want == "" && len(said) > 0 || want != "" && (len(said) != 1 || said[0].Error() != want) {
			t.Errorf("--set %s: %v, want %q", set, said, want)
		}
	}
	// The levels in at may mean nothing in the remaining cells, which are then searched.
	text = minimalControl + "factors: {proxies: [1, 2]}\nvariants: {plain: {sidecar_scope: none}, scoped: {sidecar_scope: mesh, sidecar_hosts: a/*}}\n" +
		"search: [{factor: proxies, finding: convergence_p99, bound: 2 s, at: {sidecar_hosts: a/*}}, {factor: proxies, finding: convergence_p50, bound: 1 s}]\n"
	p := planOf(t, text, "variant=plain")
	if said := p.Unmeasured(); len(said) > 0 || len(p.Climbs()) != 2 {
		t.Errorf("%d searches, and %v", len(p.Climbs()), said)
	}
}
