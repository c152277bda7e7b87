package sections

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

var answersOf = reporttest.Of{Kind: Kind()}.Answers

// shop returns a run of ten servers whose cells a test may change.
func shop(t *testing.T, cells int) record.Findings {
	f := reporttest.TenServers(t)
	f.Cells = slices.Clone(f.Cells[:cells])
	for i := range f.Cells {
		own := *f.Cells[i].Scenario
		own.Trials, f.Cells[i].Scenario = slices.Clone(own.Trials), &own
	}
	return f
}

// TestGolden checks this kind's words that the reports of kinds/reports do not show.
func TestGolden(t *testing.T) {
	var w reporttest.Words
	f := shop(t, 3)
	w.Add("as expected", answersOf(f))
	s := f.Cells[1].Scenario
	s.Verdict, s.AsExpected = record.VerdictPass, false
	for k := range s.Trials {
		s.Trials[k].Verdict = record.VerdictPass
	}
	w.Add("another verdict than expected", answersOf(f)[0])
	passWords(t, &w)
	ledgerWords(t, &w)
	meshWords(t, &w)
	golden.File(t, filepath.Join("testdata", "words.txt"), w.Bytes())
}

// passWords are about a pass in which requests failed: how many its assertions allowed, with
// several trials in the one that lost most.
func passWords(t *testing.T, w *reporttest.Words) {
	f := shop(t, 3)
	own := f.Cells[0].Scenario
	for _, shares := range [][]float64{{0, 0}, {13.0 / 2584}, {0, 0.09, 0.01}, {1.0 / 25_840, 0}} {
		own.Total.ErrorShare, own.Trials = shares[0], nil // the first is shown
		for _, share := range shares {
			own.Trials = append(own.Trials, record.TrialVerdict{Verdict: record.VerdictPass, ErrorShare: share})
		}
		alone := f
		alone.Cells = f.Cells[:1]
		w.Add(fmt.Sprintf("failed shares %.3g", shares), answersOf(f)[0], answersOf(alone)[0])
	}
}

// ledgerWords are about ledgers of only clients and workers, which state what they cannot know.
func ledgerWords(t *testing.T, w *reporttest.Words) {
	f := shop(t, 3)
	for i := range f.Cells {
		l := &f.Cells[i].Scenario.Ledger
		l.Reconciled, l.Unreconciled, l.Faults = true, nil, []record.LedgerFault{{Hop: "network", Service: "bar", Count: 3}}
	}
	add := func(name string) { w.Add("ledger: "+name, answersOf(f), faultTable(f).Notes) }
	add("of sidecars")
	f.Cells[0].Scenario.LedgerOf = record.LedgerEnds
	add("of the ends in one of three cells")
	for i := range f.Cells {
		f.Cells[i].Scenario.LedgerOf = record.LedgerEnds
	}
	add("of the ends")
	for i := range f.Cells {
		l := &f.Cells[i].Scenario.Ledger
		l.Equations = l.Equations[:1]
	}
	add("of the ends, of one service")
}

// meshWords are about compared meshes: without steps, what each adds comes before the verdicts.
func meshWords(t *testing.T, w *reporttest.Words) {
	f := shop(t, 3)
	f.Factors = []record.FactorLevels{{Factor: "mesh", Levels: []string{"none", "istio", "linkerd"}}}
	none := record.Cell{"mesh": "none"}
	for i, mesh := range f.Factors[0].Levels {
		f.Cells[i].Cell, f.Cells[i].Label, f.Cells[i].Scenario.Steps = record.Cell{"mesh": mesh}, mesh, nil
		if i > 0 {
			f.Findings = append(f.Findings, record.Finding{Name: "cpu_machine_overhead", Probe: "cpu", Unit: "cores", Cell: f.Cells[i].Cell, Against: none,
				Estimate: 0.6 / float64(i), Low: 0.5 / float64(i), High: 0.7 / float64(i), Verdict: record.VerdictReal, Blocks: 5})
		}
	}
	w.Add("meshes", answersOf(f)[0])
	f.Cells[1].Scenario.Steps = make([]record.ScenarioStep, 1)
	w.Add("meshes, where something happens", answersOf(f)[0])
	for _, verdict := range []string{record.VerdictReal, record.VerdictInconclusive, record.VerdictNoEffect} {
		f.Findings = []record.Finding{
			{Name: "cpu_client_proxy", Unit: "mCPU", Cell: f.Cells[1].Cell, Estimate: 50, Low: 40, High: 60, Verdict: record.VerdictMeasured},
			{Name: "latency_p50_overhead", Unit: "us", Cell: f.Cells[1].Cell, Against: none, Estimate: 2000, Low: 1800, High: 2200, Verdict: verdict},
		}
		w.Add("what a mesh adds: "+verdict, meshAnswers(f))
	}
}
