package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
)

// line is the result of a run of a scenario: a line of the log.
type line struct {
	Schema    int       `json:"schema"`
	Scenario  string    `json:"scenario"`
	At        time.Time `json:"at"`
	Seconds   float64   `json:"s"` // the whole run, including deployment
	Exit      int       `json:"exit"`
	Meshtrial string    `json:"meshtrial"`
	Error     string    `json:"error,omitempty"` // why there are no cells
	Run       string    `json:"run,omitempty"`   // its directory, if it was kept
	Cells     []cell    `json:"cells"`
}

// cell is the only trial of a cell in a run.
type cell struct {
	Label    string `json:"label"`
	Expected string `json:"expected"`
	Verdict  string `json:"verdict"`
	// Why says why it is inconclusive, or which assertions failed.
	Why      []string `json:"why,omitempty"`
	Requests int64    `json:"requests"`
	Failed   int64    `json:"failed"`
	// Unreconciled requests in the ledger, and how many of them it explains by
	// name.
	Unreconciled int64   `json:"unreconciled"`
	Named        int     `json:"named"`
	TrialS       float64 `json:"trial_s"` // including pod creation and collection
}

// cellsOf extracts the reported figures from findings with one trial per cell.
func cellsOf(f record.Findings, trials []record.Trial) []cell {
	var out []cell
	for _, c := range f.Cells {
		s := c.Scenario
		if s == nil {
			continue
		}
		one := cell{Label: c.Label, Expected: s.Expected, Verdict: s.Verdict, Requests: s.Total.Requests, Failed: s.Total.Failed,
			Unreconciled: s.Ledger.Classes[string(ledger.ClassUnreconciled)] + s.Ledger.Orphans, Named: len(s.Ledger.Unreconciled)}
		for _, t := range s.Trials {
			one.Why = append(one.Why, t.Why...)
			for _, a := range t.Assertions {
				if a.Outcome != record.VerdictPass {
					one.Why = append(one.Why, fmt.Sprintf("%s: %s", a.Expr, a.Detail))
				}
			}
			for i := range trials {
				if trials[i].ID == t.Trial {
					one.TrialS = trials[i].Ended.Sub(trials[i].Started).Seconds()
				}
			}
		}
		out = append(out, one)
	}
	return out
}

// row is a cell over all runs.
type row struct {
	Scenario     string         `json:"scenario"`
	Label        string         `json:"label"`
	Expected     string         `json:"expected"`
	Runs         int            `json:"runs"`
	AsExpected   int            `json:"as_expected"`
	Verdicts     map[string]int `json:"verdicts"`
	Odd          map[string]int `json:"odd,omitempty"` // reasons for unexpected verdicts
	Seconds      float64        `json:"trial_s"`       // median
	Requests     int64          `json:"requests"`
	Failed       int64          `json:"failed"`
	Reconciled   int            `json:"reconciled"` // runs
	Unreconciled int64          `json:"unreconciled"`
	Named        int            `json:"named"`
	seconds      []float64
}

// noVerdict represents the verdicts of a run without any.
const noVerdict = "none"

// tally sums up lines, with a row for each cell, in the order of names.
func tally(names []string, lines []line) []row {
	var out []row
	for _, name := range names {
		begin := len(out)
		find := func(label, expected string) *row {
			for i := begin; i < len(out); i++ {
				if out[i].Label == label && out[i].Expected == expected {
					return &out[i]
				}
			}
			out = append(out, row{Scenario: name, Label: label, Expected: expected, Verdicts: map[string]int{}, Odd: map[string]int{}})
			return &out[len(out)-1]
		}
		for _, l := range lines {
			if l.Scenario != name {
				continue
			}
			for _, c := range l.Cells {
				find(c.Label, c.Expected).add(c)
			}
			if len(l.Cells) == 0 {
				r := find("", noVerdict)
				r.Runs++
				r.Verdicts[noVerdict]++
				r.Odd[l.Error]++
			}
		}
	}
	for i := range out {
		out[i].Seconds = table.Of("", "", out[i].seconds...).Median
	}
	return out
}

func (r *row) add(c cell) {
	r.Runs++
	r.Verdicts[c.Verdict]++
	if c.Verdict == r.Expected {
		r.AsExpected++
	} else if len(c.Why) == 0 {
		r.Odd[c.Verdict]++
	} else {
		r.Odd[c.Verdict+": "+c.Why[0]]++
	}
	r.seconds = append(r.seconds, c.TrialS)
	r.Requests, r.Failed = r.Requests+c.Requests, r.Failed+c.Failed
	if c.Unreconciled == 0 && c.Requests > 0 {
		r.Reconciled++
	}
	r.Unreconciled, r.Named = r.Unreconciled+c.Unreconciled, r.Named+c.Named
}

// errDiffers reports an unexpected verdict.
var errDiffers = errors.New("verdicts differ from the expected ones")

// judge returns [errDiffers] if a verdict is unexpected, and another error if
// there are no rows.
func judge(rows []row) error {
	if len(rows) == 0 {
		return errors.New("there is no run of these scenarios yet")
	}
	if slices.ContainsFunc(rows, func(r row) bool { return r.AsExpected < r.Runs }) {
		return errDiffers
	}
	return nil
}

// title gives the number of runs and the program of the table.
func title(lines []line) string {
	versions := map[string]bool{}
	for _, l := range lines {
		versions[cmp.Or(l.Meshtrial, "unknown")] = true
	}
	return fmt.Sprintf("scenarios, %d runs, meshtrial %s", len(lines), strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
}

var heads = []string{"scenario", "variant", "expected", "found", "requests", "failed", "ledger", "trial s"}

func (r *row) columns() []string {
	ledger := fmt.Sprintf("reconciled %d of %d", r.Reconciled, r.Runs)
	if r.Unreconciled > 0 {
		ledger += fmt.Sprintf("; %d not, %d named", r.Unreconciled, r.Named)
	}
	return []string{r.Scenario, r.Label, r.Expected, fmt.Sprintf("%d of %d", r.AsExpected, r.Runs), fmt.Sprint(r.Requests), fmt.Sprint(r.Failed), ledger,
		fmt.Sprintf("%.1f", r.Seconds)}
}

// oddities lists reasons for unexpected verdicts, the most frequent first.
func (r *row) oddities() []string {
	whys := slices.SortedFunc(maps.Keys(r.Odd), func(a, b string) int { return cmp.Or(cmp.Compare(r.Odd[b], r.Odd[a]), cmp.Compare(a, b)) })
	for i, why := range whys {
		whys[i] = fmt.Sprintf("%s, %s: %d times %s", r.Scenario, cmp.Or(r.Label, "whole run"), r.Odd[why], why)
	}
	return whys
}

// printText writes the table for people, followed by what was unexpected.
func printText(out io.Writer, title string, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\n\n%s\n", title, strings.Join(heads, "\t"))
	for i := range rows {
		fmt.Fprintln(w, strings.Join(rows[i].columns(), "\t"))
	}
	for i := range rows {
		for _, why := range rows[i].oddities() {
			fmt.Fprintln(w, why)
		}
	}
	return w.Flush()
}
