package analysis_test

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// TestAssertions checks assertions that pass, that fail, and that cannot be
// decided.
func TestAssertions(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 5, 10, analysistest.Quiet()))
	for _, c := range []judgement{
		{`finding("latency_p50_overhead", {"sidecars": "both"}).high < 1000`, true, "latency_p50_overhead at sidecars both is"},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).high < 100.0`, false, "real"},
		{`finding("latency_p50_overhead", {"sidecars": "client"}).verdict == "no_effect"`, true, "no effect"},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).relative.low > 2`, true, "real"},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).cell.sidecars == "both"`, true, ""},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).minimum_detectable_effect < 100`, true, ""},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).estimate < 2.0 * finding("latency_p50", {"sidecars": "both"}).estimate`, true, "latency_p50 at"},
		{`findings.filter(f, f.name == "latency_p50_overhead").all(f, f.estimate < 1000.0)`, true, "true"},
		{`validity.invalid == 0`, true, "true"},
		{`size(findings) > 10`, true, "true"},
		{`finding("latency_p50_overhead").high < 1000`, false, "3 cells"},
		{`finding("latency_p50_overhead", {"sidecars": "none"}).high < 1000`, false, "no cell with sidecars none"},
		{`finding("latency_p50", {"connections": 64}).high < 1000`, false, "no cell with connections 64"},
		{`finding("cpu_control_per_request", {"sidecars": "both"}).high < 1000`, false, "this run has no finding"},
		{`true || finding("latency_p50_overhead").high < 1000`, true, "true"},
	} {
		c.judge(t, f)
	}
}

// judgement is the result of an assertion.
type judgement struct {
	expr   string
	passed bool
	detail string
}

func (c judgement) judge(t *testing.T, f record.Findings) {
	t.Helper()
	exprs := []study.Expr{{Text: c.expr}}
	if err := analysis.CheckAssertions(exprs); err != nil {
		t.Errorf("%s: %v", c.expr, err)
		return
	}
	if got := analysis.JudgeAssertions(exprs, f)[0]; got.Passed != c.passed || !strings.Contains(got.Detail, c.detail) || got.Detail == "" {
		t.Errorf("%s: %+v", c.expr, got)
	}
}

// TestAssertionsAboutNothing checks that a missing figure never counts as zero,
// however an expression accesses it.
func TestAssertionsAboutNothing(t *testing.T) {
	w := analysistest.Quiet()
	w.Spoil = func(t *record.Trial) { t.Validity.Valid = t.Cell["sidecars"] != "both" }
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.QuickStudy, 5, 10, w))
	const p50 = `findings.filter(f, f.name == "latency_p50_overhead")`
	const both = `.filter(f, f.cell.sidecars == "both")`
	for _, c := range []judgement{
		{p50 + `.all(f, f.estimate < 1000.0)`, false, "latency_p50_overhead at sidecars both is not valid: too few valid blocks"},
		{p50 + `.all(f, f.high < 1000.0)`, false, "is not valid"},
		{p50 + both + `[0].estimate == 0.0`, false, "is not valid"},
		{`dyn(` + p50 + both + `[0]).estimate == 0.0`, false, "is not valid"},
		{`dyn(` + p50 + both + `[0])["high"] == 0.0`, false, "is not valid"},
		{p50 + both + `.all(f, f.relative.high < 1.0)`, false, "is not valid"},
		{p50 + both + `.all(f, f.minimum_detectable_effect < 100.0)`, false, "is not valid"},
		{`finding("latency_p50_overhead", {"sidecars": "both"}).high < 1000`, false, "is not valid: too few valid blocks"},
		{`finding("latency_p50", {"sidecars": "none"}).relative.high < 1.0`, false, "latency_p50 at sidecars none has no relative"},
		{`finding("latency_p50", {"sidecars": "none"}).minimum_detectable_effect < 1.0`, false, "has no minimum_detectable_effect"},
		// What is known about such a finding can be accessed.
		{p50 + both + `.all(f, f.verdict == "invalid" && f.unit == "us" && f.blocks == 0)`, true, "true"},
		{p50 + both + `.all(f, !has(f.relative))`, true, "true"},
		{p50 + `.all(f, f.verdict == "invalid" || f.high < 1000.0)`, true, "true"},
		{p50 + `[0] == ` + p50 + `[0]`, true, "true"},
		{`size(findings) == 0`, false, "false"},
	} {
		c.judge(t, f)
	}
}

// TestAssertionFaults checks that mistakes are found before anything starts, and
// reported with their position.
func TestAssertionFaults(t *testing.T) {
	for _, c := range []struct {
		expr string
		want string
		hint string
	}{
		{`finding("latency_p50_overhead", {"sidecars": "both"}).hihg < 1000`, "study.yaml:7:58: ", "estimate, low, high"},
		{`finding("latency_p55").high < 1000`, `study.yaml:7:13: assertion: unknown finding "latency_p55"`, "did you mean latency_p50?"},
		{`finding("latency_p50", {"sidecar": "both"}).high < 1000`, `study.yaml:7:29: assertion: unknown factor "sidecar"`, "did you mean sidecars?"},
		{`finding("x").high < 1000`, `unknown finding "x"`, "docs/study.md lists the findings"},
		{`finding("latency_p50").high <`, "study.yaml:7:", ""},
		{`finding("latency_p50").high`, "not true or false", "compare"},
		{`finding("latency_p50").high * 2 < 1000`, "no matching overload", "2.0"},
		{`latency < 1000`, "undeclared reference", "finding(name, cell)"},
		{`1`, "the expression is an int, not true or false", ""},
		{``, "", ""},
	} {
		line := "  - " + c.expr
		err := analysis.CheckAssertions([]study.Expr{{Text: c.expr, Pos: study.Pos{File: "study.yaml", Line: 7, Column: 5, Text: line}}})
		if err == nil {
			t.Errorf("%s: no error", c.expr)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), c.hint) {
			t.Errorf("%s:\n%v\nhint %q, code %d", c.expr, err, errs.Hint(err), errs.Code(err))
		}
	}
	// An expression from a flag has no line, but a column.
	err := analysis.CheckAssertions([]study.Expr{{Text: "1 +", Pos: study.Pos{File: "--assert"}}})
	if err == nil || !strings.Contains(err.Error(), "--assert 1 +: ") || !strings.Contains(err.Error(), "character 4") {
		t.Errorf("flag: %v", err)
	}
}

// TestAssertionOfFlag checks that an error quotes an expression from a flag,
// which has no position in a file.
func TestAssertionOfFlag(t *testing.T) {
	for expr, want := range map[string]string{
		"1":       "--assert 1: assertion: the expression is an int",
		"1 +\n<2": "--assert 1 + <2: assertion: ",
		"latency": "(character 1 of the expression)",
	} {
		err := analysis.CheckAssertions([]study.Expr{{Text: expr, Pos: study.Pos{File: "--assert"}}})
		if err == nil || !strings.Contains(err.Error(), want) || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

func FuzzCheckAssertions(f *testing.F) {
	f.Add(`finding("latency_p50_overhead", {"sidecars": "both"}).high < 1000`)
	f.Add(`findings.all(f, f.high < 1.0)`)
	f.Add(`finding(1, {2: 3})`)
	f.Fuzz(func(t *testing.T, text string) {
		err := analysis.CheckAssertions([]study.Expr{{Text: text, Pos: study.Pos{File: "x", Line: 1, Column: 1, Text: text}}})
		if err != nil && errs.Code(err) != errs.CodeUsage {
			t.Errorf("%q: %v has code %d", text, err, errs.Code(err))
		}
	})
}

// The unknown end of a search is not a figure: nothing may depend on it, and it
// is reported as open.
func TestAssertionsAboutOpenEnds(t *testing.T) {
	f := record.Findings{Findings: []record.Finding{
		{Name: "highest_rate", Unit: "requests/s", Estimate: 8000, Low: 8000, High: 8000, Open: record.OpenHigh, Blocks: 3, Verdict: record.VerdictMeasured, Cell: record.Cell{"sidecars": "none"}},
		{Name: "highest_rate", Unit: "requests/s", Estimate: 0, Low: 0, High: 500, Open: record.OpenLow, Blocks: 3, Verdict: record.VerdictMeasured, Cell: record.Cell{"sidecars": "both"}},
		{Name: "highest_rate", Unit: "requests/s", Estimate: 2000, Low: 1000, High: 4000, Blocks: 3, Verdict: record.VerdictMeasured, Cell: record.Cell{"sidecars": "server"}},
	}}
	for _, c := range []judgement{
		{`finding("highest_rate", {"sidecars": "none"}).high < 10000.0`, false, "highest_rate at sidecars none has no upper end"},
		{`finding("highest_rate", {"sidecars": "none"}).low >= 8000.0`, true, "8000 requests/s or more, measured"},
		{`finding("highest_rate", {"sidecars": "none"}).open == "high"`, true, ""},
		{`finding("highest_rate", {"sidecars": "both"}).high < 1000.0`, true, "below 500 requests/s, measured"},
		{`finding("highest_rate", {"sidecars": "both"}).low > 0.0`, false, ""},
		{`finding("highest_rate", {"sidecars": "server"}).high < 5000.0`, true, "(1000 requests/s to 4000 requests/s)"},
	} {
		c.judge(t, f)
	}
}
