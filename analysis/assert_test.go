package analysis

import (
	"strings"
	"testing"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/study"
)

// TestAssertions: what holds, what does not, and what cannot be said.
func TestAssertions(t *testing.T) {
	f := analyze(t, simulate(t, quickStudy, 5, 10, quiet()))
	for _, c := range []struct {
		expr   string
		passed bool
		detail string
	}{
		{`finding("latency_p50_overhead", {"sidecars": "both"}).high < 1000`, true, "latency_p50_overhead at sidecars both is"},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).high < 100.0`, false, "real"},
		{`finding("latency_p50_overhead", {"sidecars": "client"}).verdict == "below_noise"`, true, "below noise"},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).relative.low > 2`, true, "real"},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).cell.sidecars == "both"`, true, ""},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).minimum_detectable_effect < 100`, true, ""},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).estimate < 2.0 * finding("latency_p50", {"sidecars": "both"}).estimate`, true, "latency_p50 at"},
		{`findings.filter(f, f.name == "latency_p50_overhead").all(f, f.estimate < 1000.0)`, true, "true"},
		{`findings.exists(f, f.name == "latency_p50_overhead" && f.verdict == "inconclusive")`, false, "false"},
		{`validity.invalid == 0`, true, "true"},
		{`size(findings) > 10`, true, "true"},
		{`finding("latency_p50_overhead").high < 1000`, false, "3 cells"},
		{`finding("latency_p50_overhead", {"sidecars": "none"}).high < 1000`, false, "no cell with sidecars none"},
		{`finding("latency_p50", {"connections": 64}).high < 1000`, false, "no cell with connections 64"},
		{`finding("cpu_control_per_request", {"sidecars": "both"}).high < 1000`, false, "this run has no finding"},
		{`true || finding("latency_p50_overhead").high < 1000`, true, "true"},
	} {
		a, err := CompileAssertions([]study.Expr{{Text: c.expr}})
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		got := a.Judge(f)[0]
		if got.Passed != c.passed || !strings.Contains(got.Detail, c.detail) || got.Detail == "" {
			t.Errorf("%s: %+v", c.expr, got)
		}
	}
}

// TestAssertionFaults: mistakes are found before anything starts, and shown
// where they stand.
func TestAssertionFaults(t *testing.T) {
	for _, c := range []struct {
		expr string
		want string
		hint string
	}{
		{`finding("latency_p50_overhead", {"sidecars": "both"}).hihg < 1000`, "study.yaml:7:58: ", "estimate, low, high"},
		{`finding("latency_p55").high < 1000`, `study.yaml:7:13: assertion: unknown finding "latency_p55"`, "latency_p50"},
		{`finding("latency_p50", {"sidecar": "both"}).high < 1000`, `study.yaml:7:29: assertion: unknown factor "sidecar"`, "sidecars"},
		{`finding("latency_p50").high <`, "study.yaml:7:", ""},
		{`finding("latency_p50").high`, "not true or false", "compare"},
		{`finding("latency_p50").high * 2 < 1000`, "no matching overload", "2.0"},
		{`latency < 1000`, "undeclared reference", "finding(name, cell)"},
		{`1`, "not true or false", ""},
		{``, "", ""},
	} {
		line := "  - " + c.expr
		_, err := CompileAssertions([]study.Expr{{Text: c.expr, Pos: study.Pos{File: "study.yaml", Line: 7, Column: 5, Text: line}}})
		if err == nil {
			t.Errorf("%s: no error", c.expr)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), c.hint) {
			t.Errorf("%s:\n%v\nhint %q, code %d", c.expr, err, errs.Hint(err), errs.Code(err))
		}
	}
	// From a flag there is no line, but there is a character.
	_, err := CompileAssertions([]study.Expr{{Text: "1 +", Pos: study.Pos{File: "--assert"}}})
	if err == nil || !strings.Contains(err.Error(), "--assert: ") || !strings.Contains(err.Error(), "character 4") {
		t.Errorf("flag: %v", err)
	}
}

func FuzzCompileAssertions(f *testing.F) {
	f.Add(`finding("latency_p50_overhead", {"sidecars": "both"}).high < 1000`)
	f.Add(`findings.all(f, f.high < 1.0)`)
	f.Add(`finding(1, {2: 3})`)
	f.Fuzz(func(t *testing.T, text string) {
		_, err := CompileAssertions([]study.Expr{{Text: text, Pos: study.Pos{File: "x", Line: 1, Column: 1, Text: text}}})
		if err != nil && errs.Code(err) != errs.CodeUsage {
			t.Errorf("%q: %v has code %d", text, err, errs.Code(err))
		}
	})
}
