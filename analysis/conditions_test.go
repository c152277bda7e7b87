package analysis

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

func TestConditionsAreMedians(t *testing.T) {
	trial := func(established, again int64, busy float64) *record.Trial {
		return &record.Trial{
			Connections: map[string]record.Connections{record.PartGenerator: {Established: established, Opened: 2 * established, Accepted: 1, Retransmitted: again}},
			Pressure:    &record.Pressure{BusyRatio: busy, CPUSomeRatio: busy / 2, StealRatio: 0.01},
		}
	}
	trials := []*record.Trial{trial(10, 0, 0.2), {}, trial(30, 9, 0.9), trial(12, 1, 0.4)}
	if got, want := connections(trials), (map[string]record.Connections{record.PartGenerator: {Established: 12, Opened: 24, Accepted: 1, Retransmitted: 1}}); !reflect.DeepEqual(got, want) {
		t.Errorf("connections %+v, want %+v", got, want)
	}
	if got, want := Pressure(trials), (&record.Pressure{BusyRatio: 0.4, CPUSomeRatio: 0.2, StealRatio: 0.01}); !reflect.DeepEqual(got, want) {
		t.Errorf("pressure %+v, want %+v", got, want)
	}
	if got := connections([]*record.Trial{{}}); len(got) != 0 {
		t.Errorf("connections of nothing: %v", got)
	}
	if got := Pressure(nil); got != nil {
		t.Errorf("pressure of nothing: %v", got)
	}
}

// The cause of a trial's invalidity is attributed correctly.
func TestFailed(t *testing.T) {
	for _, test := range []struct {
		checks string // failed checks of one trial
		why    string
		own    bool
	}{
		{"", "", false},
		{"connected", "connected", true},
		{"simulator-lag", "simulator-lag", false},
		{"connected simulator-lag", "simulator-lag", false},
		{"api-server connected", "api-server", false},
		{"api-server istiod-lived", "istiod-lived", true},
	} {
		one := &record.Trial{}
		one.Validity.Checks = append(one.Validity.Checks, record.Check{Name: "account", OK: true})
		for _, name := range strings.Fields(test.checks) {
			one.Validity.Checks = append(one.Validity.Checks, record.Check{Name: name})
		}
		if why, own := failed([]*record.Trial{one}, IstiodsChecks); why != test.why || own != test.own {
			t.Errorf("%q: %q, %v; want %q, %v", test.checks, why, own, test.why, test.own)
		}
	}
}

// Use of the machine by other processes is reported, with their names.
func TestUnattributed(t *testing.T) {
	hog := &record.Others{UnattributedRatio: 0.4, Who: []record.ProcessUse{{Command: "cc1", CPUS: 0.3}, {Command: "make", CPUS: 0.1}}}
	other := &record.Others{UnattributedRatio: 0.06, Who: []record.ProcessUse{{Command: "make", CPUS: 0.5}}}
	quiet := &record.Others{UnattributedRatio: 0.01}
	for _, c := range []struct {
		name   string
		others []*record.Others
		want   string
	}{
		{"nobody", []*record.Others{quiet, quiet}, ""},
		{"not known", []*record.Others{nil, nil}, ""},
		{"two", []*record.Others{hog, quiet, other, nil}, "in 2 of 3 trials more than 5% of the machine's CPU time (up to 40%) went to processes outside the study: most by make, cc1"},
		{"without a name", []*record.Others{{UnattributedRatio: 0.5}}, "(up to 50%) went to processes outside the study"},
	} {
		o := &Observations{}
		for _, others := range c.others {
			o.Run.Trials = append(o.Run.Trials, record.Trial{Others: others})
		}
		if got := note.Words(o.unattributed()); !strings.HasSuffix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// onMachines returns a run of valid trials, each as "FACTOR=LEVEL PART=MACHINE..."; the
// machines of several pods of a part are joined by +, and an unknown machine has no name.
func onMachines(places []string, s *study.Study, lines ...string) *Observations {
	o := &Observations{Plan: &study.Plan{Study: s}, kind: Kind{Places: places}}
	for i, line := range lines {
		t := record.Trial{ID: fmt.Sprint(i), Cell: record.Cell{}, Nodes: map[string]record.NodeAt{}, Validity: record.Validity{Valid: true}}
		for j, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			if j == 0 {
				t.Cell[name] = value
				continue
			}
			for k, machine := range strings.Split(value, "+") {
				t.Nodes[record.OfHand(name, k)] = record.NodeAt{Name: "node-" + machine, Machine: machine}
			}
		}
		o.Run.Trials = append(o.Run.Trials, t)
	}
	return o
}

// Trials on unusual machines are left out; those that require other nodes are compared
// with their like.
func TestUnlike(t *testing.T) {
	places := []string{"placement", "simulators"}
	plain, search, tune := &study.Study{}, &study.Study{Search: []study.Search{{}}}, &study.Study{Tune: &study.Tune{}}
	for name, c := range map[string]struct {
		study  *study.Study
		trials []string
		left   string // trials
	}{
		"no nodes are known":     {plain, []string{"sidecars=none", "sidecars=both"}, ""},
		"alike":                  {plain, []string{"sidecars=none worker=m", "sidecars=both worker=m"}, ""},
		"not known":              {plain, []string{"sidecars=none worker=m", "sidecars=both worker="}, ""},
		"most":                   {plain, []string{"sidecars=none worker=n", "sidecars=none worker=m", "sidecars=both worker=m"}, "0"},
		"as many":                {plain, []string{"sidecars=none worker=n", "sidecars=both worker=m"}, "1"},
		"one part after another": {plain, []string{"s=a generator=m worker=m", "s=a generator=m worker=n", "s=a generator=m worker=n", "s=a generator=n worker=m"}, "0 3"},
		"of several pods":        {plain, []string{"s=a simulator=m+n", "s=a simulator=n+m", "s=a simulator=m+m"}, "2"},
		"istiod":                 {plain, []string{"s=a control=m", "s=b control=n", "s=b control=m"}, "1"},
		"other places":           {plain, []string{"placement=same-node worker=m", "placement=other-node worker=n", "placement=other-node worker=n"}, ""},
		"more simulators":        {plain, []string{"simulators=1 simulator=m", "simulators=4 simulator=m+n"}, ""},
		"a search's first":       {search, []string{"s=a worker=n", "s=a worker=m", "s=b worker=m"}, "1 2"},
		"a tuning's first":       {tune, []string{"s=a control=n", "s=a control=m", "s=b control=m"}, "1 2"},
		"the first that says so": {search, []string{"s=a worker=", "s=a worker=m", "s=b worker=n"}, "2"},
	} {
		o := onMachines(places, c.study, c.trials...)
		found := o.unlike()
		if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != c.left {
			t.Errorf("%s: left out %q, want %q: %v", name, got, c.left, found)
		}
		for id, checks := range found {
			if len(checks) != 1 || checks[0].OK || checks[0].Name != checkMachines || !strings.Contains(checks[0].Detail, ": on ") {
				t.Errorf("%s: trial %s: %+v", name, id, checks)
			}
		}
		o.without(found)
		says := note.Words(o.UnlikeNodes())
		if left := strings.Count(c.left+" ", " "); c.left != "" && !strings.Contains(says, fmt.Sprintf(". %d trials are left out for that", left)) || c.left == "" && strings.Contains(says, "left out") {
			t.Errorf("%s: it says %q", name, says)
		}
	}
	o := onMachines(nil, plain, "s=a worker=m+n", "s=a worker=m", "s=b worker=n")
	if found := o.unlike(); len(found) > 0 {
		t.Errorf("a kind whose pods are everywhere: %v", found)
	}
	if says := o.UnlikeNodes(); len(says) != 1 || says[0].String() != "the nodes differ: node-m is m; node-n is n" {
		t.Errorf("it says %q", says)
	}
	// A client on another machine than its server.
	for want, trials := range map[string][]string{
		"the nodes differ: node-m is m; node-n is n. Client and server ran on different machines in 2 of 3 trials": {"s=a generator=m worker=n", "s=a generator=m+n worker=m", "s=b generator=m worker=m"},
		"the nodes differ: node-m is m; node-n is n":                                                               {"s=a generator=m worker=m", "s=b generator=n worker=n", "s=b generator= worker=n"},
	} {
		if got := note.Words(onMachines(nil, plain, trials...).UnlikeNodes()); got != want {
			t.Errorf("%s: it says %q", want, got)
		}
	}
	o = onMachines(places, plain, "s=a worker=m", "s=b worker=n")
	o.Run.Trials[0].Validity.Valid = false
	if found := o.unlike(); len(found) > 0 {
		t.Errorf("a trial that is not valid is held up as usual: %v", found)
	}
}

// A difference is compared with the generator's lag at its own part of the
// distribution.
func TestLagAtItsPart(t *testing.T) {
	whole := record.Latency{Quantiles: record.QuantilesAt(0.5, 1, 0.9, 2, 0.99, 3, 0.999, 4, 1, 6), Mean: 5}
	for name, c := range map[string]struct {
		m    Measure
		want float64
	}{
		"p50":   {LatencyQuantile("latency_p50", 0.5), 1},
		"p90":   {LatencyQuantile("latency_p90", 0.9), 2},
		"p99":   {LatencyQuantile("latency_p99", 0.99), 3},
		"p99.9": {LatencyQuantile("latency_p999", 0.999), 4},
		"mean":  {Measure{Timed: true}, 5},
	} {
		if got := lagAt(whole, c.m); got != c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

// An interval that includes nearly everything agrees with nothing.
func TestRatioNote(t *testing.T) {
	for _, tt := range []struct {
		figure, estimate, low, high float64
		want                        note.Note
	}{
		{99_000, 218_000, 0, 838_000, noteTooWide.Of("99 ms", "0 µs", "838 ms")},
		{99_000, 233_000, 77_000, 390_000, noteTooWide.Of("99 ms", "77 ms", "390 ms")},
		{99_000, 99_000, 70_000, 141_000, noteTooWide.Of("99 ms", "70 ms", "141 ms")},
		{99_000, 99_000, 70_000, 140_000, noteAgrees.Of("99 ms", "70 ms", "140 ms")},
		{99_000, 99_000, 99_000, 99_000, noteAgreesFully.Of("99 ms")},
		{99_000, 218_000, 210_000, 838_000, noteTimes.Of("218 ms", "2.2 times", "99 ms")},
	} {
		f := &record.Finding{Estimate: tt.estimate, Low: tt.low, High: tt.high, Unit: finding.UnitMicroseconds}
		if got := ratioNote(study.Published{Figure: tt.figure, Unit: finding.UnitMicroseconds}, f); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// Warnings have the units of their findings.
func TestWarningsHaveUnits(t *testing.T) {
	us := Measure{Def: finding.Def{Unit: finding.UnitMicroseconds}}
	for _, tt := range []struct {
		e    stat.Estimate
		want string
	}{
		{stat.Estimate{Value: 31_000, Low: -1000, High: 62_000}, "the interval includes zero and reaches beyond the margin of 5.0 ms"},
		{stat.Estimate{Value: 6000, Low: 1000, High: 11_000}, "identical baselines differ by as much: up to 21 ms"},
		{stat.Estimate{Value: 1000, Low: -1000, High: 2000}, "the whole interval lies within the margin of 5.0 ms"},
	} {
		tt.e.Blocks = 2
		if _, why := tt.e.CallIn(stat.Floor{Value: 20_837}, 5000, us.Say); why.String() != tt.want {
			t.Errorf("%s", why)
		}
	}
	e := stat.Mean([]float64{5e6, 5.1e6, 5.2e6, 5e6, 5.1e6, 5.2e6, 900e6}, stat.Options{Say: Measure{Def: finding.Def{Unit: finding.UnitBytes}}.Say})
	if got := e.Warnings; note.Codes(got) != "outlier" || got[0].Args[0] != "900 MB" {
		t.Errorf("%q", got)
	}
}

// Differences that are real individually are revoked if there are so many that
// some are due to chance; if several are real, each needs less evidence.
func TestFamilyJudges(t *testing.T) {
	say := func(float64) string { return "x" }
	// With nine blocks t is 2.306 at 95%, and the p-value of 2.5 is 0.037.
	of := func(ts ...float64) (Family, []record.Finding) {
		var all Family
		var findings []record.Finding
		for _, x := range ts {
			d := Difference{Estimate: stat.Estimate{Value: x, Low: x - 2.306, High: x + 2.306, SE: 1, DF: 8, Level: 0.95, Blocks: 9}, Say: say}
			all, findings = append(all, d), append(findings, d.Put(record.Finding{}, 1))
		}
		return all, findings
	}
	verdicts := func(findings []record.Finding) string {
		var out []string
		for _, f := range findings {
			out = append(out, f.Verdict)
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		ts   []float64
		want string
	}{
		{[]float64{2.5}, "real"},
		{[]float64{2.5, 0.1}, "inconclusive inconclusive"},
		{[]float64{2.5, -2.6}, "real real"},
		{[]float64{20, 2.5, 0.1}, "real inconclusive inconclusive"},
		{[]float64{20, 2.5, 19, 18, 0}, "real real real real inconclusive"},
	} {
		all, findings := of(tt.ts...)
		all.Judge(findings)
		if got := verdicts(findings); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.ts, got, tt.want)
		}
	}
	all, findings := of(2.5, 0.1)
	all.Judge(findings)
	alone, single := of(2.5)
	alone.Judge(single)
	if f := findings[0]; f.Reason != record.ReasonMany || !reflect.DeepEqual(f.Warnings[0], noteMany.Of(2)) || f.Low <= 0 || !(f.MDE > single[0].MDE) {
		t.Errorf("%+v, alone %+v", f, single[0])
	}
	all, findings = of(2.5, 0.1)
	findings[0].Margin = 5
	if all.Judge(findings); findings[0].Verdict != record.VerdictNoEffect || findings[0].Reason != record.ReasonMany {
		t.Errorf("within the margin: %+v", findings[0])
	}
	all, findings = of(2.5, 0.1)
	findings[1] = Invalid(record.Finding{}, 1)
	if all.Judge(findings); verdicts(findings) != "real invalid" || findings[1].MDE != 0 {
		t.Errorf("one that is not known: %s", verdicts(findings))
	}
	all, findings = of(20, 19)
	all[0].OnePods, all[0].Floor = true, stat.NoiseFloor([]stat.Pair{{Base: 1, Test: 2}}, stat.Options{})
	if all.Judge(findings); findings[0].Verdict != record.VerdictReal {
		t.Errorf("23 times what one pair of deployments differs by: %+v", findings[0])
	}
	all, findings = of(8, 19)
	all[0].OnePods, all[0].Floor = true, stat.NoiseFloor([]stat.Pair{{Base: 1, Test: 2}}, stat.Options{})
	if all.Judge(findings); findings[0].Verdict == record.VerdictReal {
		t.Errorf("nine times what one pair of deployments differs by: %+v", findings[0])
	}
}
