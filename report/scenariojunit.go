package report

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
)

// scenarioCases are a cell's test cases: one for its verdict, and one for each
// assertion, all trials together. In a cell that is expected to fail only the
// verdict can fail.
func scenarioCases(suite string, c record.CellSummary) []junitCase {
	s := c.Scenario
	class := suite + "." + clean(c.Label)
	verdict := junitCase{Name: "verdict: " + s.Expected, Class: class, Out: clean(fmt.Sprintf("%s in %d of %d trials; %s", s.Expected, agreed(s), len(s.Trials), because(s)))}
	switch {
	case s.Verdict == record.VerdictInconclusive:
		verdict.Error = &junitMessage{clean("inconclusive: " + because(s))}
	case !s.AsExpected:
		verdict.Failure = &junitMessage{clean(fmt.Sprintf("%s, expected %s: %s", s.Verdict, s.Expected, because(s)))}
	}
	out := []junitCase{verdict}
	for i := range shownTrial(s).Assertions {
		one := junitCase{Class: class}
		for _, t := range s.Trials {
			if i >= len(t.Assertions) {
				continue
			}
			a := t.Assertions[i]
			one.Name = clean(assertionWords(a))
			says := clean(fmt.Sprintf("trial %s: %s", t.Trial, a.Detail))
			switch {
			case a.Outcome == record.VerdictFail && s.Expected == record.VerdictFail:
				one.Out += says + " (failed, as the cell is expected to); "
			case a.Outcome == record.VerdictFail && one.Failure == nil:
				one.Failure = &junitMessage{says}
			case a.Outcome == record.VerdictInconclusive && one.Error == nil:
				one.Error = &junitMessage{says}
			default:
				one.Out += says + "; "
			}
		}
		out = append(out, one)
	}
	return out
}
