package sections

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// scenarioCases returns a cell's test cases: one for its verdict, and one for each assertion over
// all trials. In a cell that is expected to fail, only the verdict can fail.
func scenarioCases(suite string, c record.CellSummary) []report.Case {
	s := c.Scenario
	if s == nil {
		return nil
	}
	class := suite + "." + c.Label
	verdict := report.Case{Name: "verdict: " + s.Expected, Class: class, Out: fmt.Sprintf("%s in %d of %d trials; %s", s.Expected, agreed(s), len(s.Trials), because(s))}
	switch {
	case s.Verdict == record.VerdictInconclusive:
		verdict.Error = "inconclusive: " + because(s)
	case !s.AsExpected:
		verdict.Failure = fmt.Sprintf("%s, expected %s: %s", s.Verdict, s.Expected, because(s))
	}
	out := []report.Case{verdict}
	for i := range shownTrial(s).Assertions {
		one := report.Case{Class: class}
		for _, t := range s.Trials {
			if i >= len(t.Assertions) {
				continue
			}
			a := t.Assertions[i]
			one.Name = assertionWords(a)
			says := fmt.Sprintf("trial %s: %s", t.Trial, a.Detail)
			switch {
			case a.Outcome == record.VerdictFail && s.Expected == record.VerdictFail:
				one.Out += says + " (failed, as the cell is expected to); "
			case a.Outcome == record.VerdictFail && one.Failure == "":
				one.Failure = says
			case a.Outcome == record.VerdictInconclusive && one.Error == "":
				one.Error = says
			default:
				one.Out += says + "; "
			}
		}
		out = append(out, one)
	}
	return out
}
