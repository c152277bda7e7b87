package sections

import (
	"bytes"
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

func TestScenarioAnswers(t *testing.T) {
	f := reporttest.TenServers(t)
	answers := strings.Join(answersOf(f), "\n")
	for _, want := range []string{
		"Every verdict is the expected one: tuned (pass), no-detection (fail) and retries-off (fail).",
		"The ledger reconciles to the request",
		"Surprise with ",
	} {
		if !strings.Contains(answers, want) {
			t.Errorf("no %q in\n%s", want, answers)
		}
	}
	f.Cells = slices.Clone(f.Cells)
	for i := range f.Cells {
		if i == 1 {
			own := *f.Cells[i].Scenario
			s := &own
			s.Trials, f.Cells[i].Scenario = slices.Clone(s.Trials), s
			s.Verdict, s.AsExpected = record.VerdictPass, false
			for k := range s.Trials {
				s.Trials[k].Verdict = record.VerdictPass
			}
		}
	}
	if got := answersOf(f)[0]; got != "No-detection came to pass; expected fail: held: 5 assertions." {
		t.Errorf("the headline is %q", got)
	}
}

// A pass in which requests failed says how many its assertions let pass, of several trials in
// the one that lost most.
func TestPassWithFailedRequests(t *testing.T) {
	f := reporttest.TenServers(t)
	f.Cells = slices.Clone(f.Cells)
	own := *f.Cells[0].Scenario
	f.Cells[0].Scenario = &own
	for verdict, shares := range map[string][]float64{
		"pass":                                   {0, 0},
		"pass, with 0.5% of its requests failed": {13.0 / 2584},
		"pass, with up to 9.0% of a trial's requests failed":    {0, 0.09, 0.01},
		"pass, with up to 0.0039% of a trial's requests failed": {1.0 / 25_840, 0},
	} {
		own.Total.ErrorShare, own.Trials = shares[0], nil // the first is shown
		for _, share := range shares {
			own.Trials = append(own.Trials, record.TrialVerdict{Verdict: record.VerdictPass, ErrorShare: share})
		}
		if got, want := answersOf(f)[0], "Every verdict is the expected one: tuned ("+verdict+"), no-detection (fail) and retries-off (fail)."; got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
		alone := f
		alone.Cells = f.Cells[:1]
		if got, want := answersOf(alone)[0], "The verdict is the expected one: "+verdict+", in "+words.Plural(len(shares), "trial")+"."; got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}

// A ledger of clients and workers says what it cannot know.
func TestAnswersOfAmbient(t *testing.T) {
	f := reporttest.TenServers(t)
	f.Cells = slices.Clone(f.Cells)
	for i := range f.Cells {
		own := *f.Cells[i].Scenario
		own.Ledger.Reconciled, own.Ledger.Unreconciled = true, nil
		own.Ledger.Faults = []record.LedgerFault{{Hop: "network", Service: "bar", Count: 3}}
		f.Cells[i].Scenario = &own
	}
	words := func() string { return strings.Join(answersOf(f), "\n") }
	if got := words(); !strings.Contains(got, "client, proxies and workers agree") || strings.Contains(got, "log connections") || len(faultTable(f).Notes) > 0 && strings.Contains(faultTable(f).Notes[len(faultTable(f).Notes)-1], "ambient") {
		t.Errorf("with sidecars:\n%s", got)
	}
	f.Cells[0].Scenario.LedgerOf = record.LedgerEnds
	if got := words(); !strings.Contains(got, "client, proxies and workers agree") || !strings.Contains(got, "Between the two with "+f.Cells[0].Label+" stand proxies that log connections") {
		t.Errorf("one of three:\n%s", got)
	}
	if notes := faultTable(f).Notes; len(notes) == 0 || !strings.Contains(notes[len(notes)-1], "the network here includes ztunnel and waypoints") {
		t.Errorf("notes %q", notes)
	}
	for i := range f.Cells {
		f.Cells[i].Scenario.LedgerOf = record.LedgerEnds
	}
	if got := words(); !strings.Contains(got, ": client and workers agree on each of") || !strings.Contains(got, "Between the two stand proxies") || !strings.Contains(got, "Only the called workers log calls between services") {
		t.Errorf("all:\n%s", got)
	}
	for i := range f.Cells {
		l := &f.Cells[i].Scenario.Ledger
		l.Equations = l.Equations[:1]
	}
	if got := words(); strings.Contains(got, "calls between services") {
		t.Errorf("of one service:\n%s", got)
	}
}

// Where nothing happens to any mesh, what each adds comes before the verdicts.
func TestMeshesCompared(t *testing.T) {
	f := reporttest.TenServers(t)
	f.Factors = []record.FactorLevels{{Factor: "mesh", Levels: []string{"none", "istio", "linkerd"}}}
	f.Cells = slices.Clone(f.Cells[:3])
	for i, mesh := range f.Factors[0].Levels {
		own := *f.Cells[i].Scenario
		own.Steps, f.Cells[i].Scenario = nil, &own
		f.Cells[i].Cell, f.Cells[i].Label = record.Cell{"mesh": mesh}, mesh
		if i > 0 {
			f.Findings = append(f.Findings, record.Finding{Name: "cpu_machine_overhead", Probe: "cpu", Unit: "cores", Cell: f.Cells[i].Cell, Against: record.Cell{"mesh": "none"},
				Estimate: 0.6 / float64(i), Low: 0.5 / float64(i), High: 0.7 / float64(i), Verdict: record.VerdictReal, Blocks: 5})
		}
	}
	want := "Istio adds 600 mCPU (500–700) and linkerd adds 300 mCPU (250–350) to what the machine uses under the same load."
	if got := answersOf(f)[0]; got != want {
		t.Errorf("the headline is %q, want %q", got, want)
	}
	own := *f.Cells[1].Scenario
	own.Steps, f.Cells[1].Scenario = make([]record.ScenarioStep, 1), &own
	if got := answersOf(f)[0]; strings.Contains(got, "adds") {
		t.Errorf("something happens, and the headline is %q", got)
	}
}

// What a mesh adds to the median latency has its interval, whatever comes of it: of the
// median itself, which services that wait have most of, an interval says little.
func TestMeshesSayWhatTheyAdd(t *testing.T) {
	f := reporttest.TenServers(t)
	f.Factors = []record.FactorLevels{{Factor: "mesh", Levels: []string{"none", "istio"}}}
	f.Cells = slices.Clone(f.Cells[:2])
	for i, mesh := range f.Factors[0].Levels {
		f.Cells[i].Cell, f.Cells[i].Label = record.Cell{"mesh": mesh}, mesh
	}
	none, istio := f.Cells[0].Cell, f.Cells[1].Cell
	for verdict, want := range map[string]string{
		record.VerdictReal:         "half of the requests take 2.0 ms (1.8–2.2) longer than with none",
		record.VerdictInconclusive: "the median latency differs from that with none by 2.0 ms (1.8–2.2), which is inconclusive",
		record.VerdictNoEffect:     "the median latency is higher by 2.0 ms (1.8–2.2) than with none, which does not matter",
	} {
		f.Findings = []record.Finding{
			{Name: "cpu_client_proxy", Unit: "mCPU", Cell: istio, Estimate: 50, Low: 40, High: 60, Verdict: record.VerdictMeasured},
			{Name: "latency_p50_overhead", Unit: "us", Cell: istio, Against: none, Estimate: 2000, Low: 1800, High: 2200, Verdict: verdict},
		}
		if got := strings.Join(meshAnswers(f), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", verdict, got, want)
		}
	}
}

func TestScenarioCSV(t *testing.T) {
	got := render(t, reporttest.TenServers(t), "csv", report.Options{})
	for _, want := range []string{"verdict,verdict,tuned", ",pass,expected pass,\n", "verdict,verdict,retries-off", ",fail,expected fail,\n", "finding,error_share,retries-off"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestScenarioJUnit(t *testing.T) {
	for name, c := range map[string]struct {
		f                record.Findings
		failures, errors int
	}{
		"as expected":  {reporttest.TenServers(t), 0, 0},
		"inconclusive": {reporttest.Inconclusive(t), 0, 1},
	} {
		var b bytes.Buffer
		if err := (report.Kinds{Kind()}).Render(&b, c.f, "junit", report.Options{}); err != nil {
			t.Fatal(err)
		}
		var suite struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
		}
		if err := xml.Unmarshal(b.Bytes(), &suite); err != nil {
			t.Fatal(err)
		}
		// One for validity, and for each of three cells a verdict and five assertions.
		if suite.Tests != 1+3*6 || suite.Failures != c.failures || suite.Errors < c.errors {
			t.Errorf("%s: %d tests, %d failures, %d errors", name, suite.Tests, suite.Failures, suite.Errors)
		}
	}
}
