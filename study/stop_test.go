package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Where --set flags are why the stop rule cannot be met, what is proposed are flags that the
// study takes, one after the other as they stand.
func TestStopHints(t *testing.T) {
	const (
		compared = minimal + "factors: {sidecars: [none, both], rate: [100, 200]}\nbaseline: {sidecars: none}\n" +
			"stop: {finding: latency_p50_overhead, half_width: 5%, of: {sidecars: both, rate: 200}}\n"
		variants = minimal + "variants: {p: {}, q: {concurrency: 1}}\nstop: {finding: latency_p50_overhead, half_width: 5%, of: {variant: q}}\n"
	)
	for _, c := range []struct {
		text, sets, want string
		hints            []string // "*" for any flag
	}{
		{compared, "sidecars=[none,ambient]", "--set sidecars=[none,ambient]: stop.of matches no cell", []string{"--set stop=none", "*"}},
		{compared, "sidecars=[none,ambient] rate=[100,300]", "--set rate=[100,300]: stop.of matches no cell", []string{"--set stop=none", "*"}},
		{compared, "stop.of={sidecars: client}", "--set stop.of={sidecars: client}: stop.of matches no cell", []string{"--set stop=none", "name levels that the factors and settings give"}},
		{compared, "baseline={}", "--set baseline={}: latency_p50_overhead needs a cell", []string{"--set stop=none"}},
		{compared, "stop.of={sidecars: none}", "--set stop.of={sidecars: none}: latency_p50_overhead needs a cell",
			[]string{"--set stop=none", "name a cell that has a baseline", "a finding without _overhead"}},
		{compared, "sidecars=both", "x.yaml:4:11: baseline: {sidecars: none} is not measured", []string{"--set sidecars=[none,both]", "--set baseline={} --set stop=none"}},
		{compared, "sidecars=ambient", "x.yaml:4:11: baseline: {sidecars: none} is not measured", []string{"--set sidecars=[none,ambient] --set stop=none", "--set baseline={} --set stop=none"}},
		{variants, "variant=q", "x.yaml:4:7: latency_p50_overhead needs a cell", []string{"--set stop=none"}},
		{variants, "variant=p", "--set variant=p: stop.of matches no cell", []string{"--set stop=none"}},
		{strings.Replace(variants, "{variant: q}", "{variant: p}", 1), "", "x.yaml:4:7: latency_p50_overhead needs a cell", []string{"name a cell that has a baseline", "a finding without _overhead"}},
	} {
		sets := strings.Fields(c.sets)
		if strings.Contains(c.sets, "{") { // one that has blanks
			sets = []string{c.sets}
		}
		_, err := Parse([]byte(c.text), "x.yaml", sets)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("--set %s: %v, want %s", c.sets, err, c.want)
			continue
		}
		hints := strings.Split(strings.TrimSuffix(errs.Hint(err), " to compare nothing"), ", or ")
		if !slices.EqualFunc(hints, c.hints, func(got, want string) bool { return got == want || want == "*" }) {
			t.Errorf("--set %s: hint %q, want %q", c.sets, hints, c.hints)
		}
		for _, hint := range hints {
			flags, ok := strings.CutPrefix(hint, "--set ")
			if !ok {
				continue
			}
			with := slices.Clone(sets)
			for flag := range strings.SplitSeq(flags, " --set ") {
				with = append(with, strings.Trim(flag, "'"))
			}
			if _, err := Parse([]byte(c.text), "x.yaml", with); err != nil {
				t.Errorf("--set %s %s: %v", c.sets, hint, err)
			}
		}
	}
}
