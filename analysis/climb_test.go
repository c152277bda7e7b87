package analysis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

const refineStudy = `
name: one
question: How many?
control: {changes: 2}
factors: {proxies: [10, 20, 40, 80]}
search: [{factor: proxies, finding: convergence_p99, bound: 300 ms, tolerance: 10%}]
blocks: {min: 1, max: 3}
`

// limited is a world whose istiod keeps up to so many proxies, but for what a
// block makes of it.
func limited(limit func(block int) int) func(*record.Trial, []record.Event) {
	return func(t *record.Trial, events []record.Event) {
		n, _ := strconv.Atoi(t.Cell[study.FactorProxies])
		if n <= limit(t.Block) {
			return
		}
		for i := range events {
			for k := range events[i].Seen.AckedUS {
				events[i].Seen.AckedUS[k] += 1_000_000
			}
		}
	}
}

// searchRun carries out what Next asks for, out of a run that measured all.
func searchRun(t interface{ Fatal(...any) }, all record.Run, blocks int) (record.Run, []string) {
	s, err := study.Parse(all.StudyYAML, "study.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := study.NewPlan(s, all.Header.Seed)
	if err != nil {
		t.Fatal(err)
	}
	run := all
	run.Trials, run.Events = nil, nil
	var tried []string
	for block := range blocks {
		for n := 0; ; n++ {
			order, more, err := bothKinds().Next(plan, run, block)
			if err != nil || n > plan.BlockSize() {
				t.Fatal("block without end", tried, err)
			}
			if !more {
				break
			}
			id := study.TrialID(block, order)
			if slices.ContainsFunc(run.Trials, func(t record.Trial) bool { return t.ID == id }) {
				t.Fatal("asked twice for", id)
			}
			for _, one := range all.Trials {
				if one.ID == id {
					run.Trials = append(run.Trials, one)
					tried = append(tried, fmt.Sprint(block, ":", one.Cell[study.FactorProxies]))
				}
			}
			for _, e := range all.Events {
				if e.Trial == id {
					run.Events = append(run.Events, e)
				}
			}
		}
	}
	return run, tried
}

func refineRun(t *testing.T, blocks int, spoil func(*record.Trial, []record.Event)) record.Run {
	return simulateControl(t, refineStudy, blocks, func(record.Cell) controlWorld { return controlWorld{debounceMS: 10, spoil: spoil} })
}

// TestRefine: the first block climbs and halves, the next tries the ends.
func TestRefine(t *testing.T) {
	run, tried := searchRun(t, refineRun(t, 3, limited(func(int) int { return 29 })), 3)
	if got, want := strings.Join(tried, " "), "0:10 0:20 0:40 0:28 0:34 0:31 1:28 1:31 2:28 2:31"; got != want {
		t.Errorf("tried %s, want %s", got, want)
	}
	f := analyze(t, run)
	x := get(t, f, "highest_proxies", record.Cell{})
	if x.Low != 28 || x.Estimate != 28 || x.High != 31 || x.Blocks != 3 || len(x.Warnings) != 2 || !strings.Contains(x.Warnings[0], "a trial has 56 pairs of a change and a proxy, but of 2 changes") || !strings.Contains(x.Warnings[1], "at 31 sidecars, convergence_p99 is") {
		t.Errorf("%+v", x)
	}
	if !strings.Contains(f.Stop, "all 3 blocks done") {
		t.Error(f.Stop)
	}
	if got := f.Factors[0].Levels; !slices.Equal(got, []string{"10", "20", "28", "31", "34", "40", "80"}) {
		t.Errorf("levels %v", got)
	}
	for _, c := range f.Cells {
		if c.Trials == 0 && c.Cell[study.FactorProxies] != "80" {
			t.Errorf("%s is listed and was not measured", c.Label)
		}
	}
}

// TestRefineNoise: where blocks disagree the interval is as wide as they are
// apart, and says so.
func TestRefineNoise(t *testing.T) {
	limits := []int{29, 22, 36}
	run, tried := searchRun(t, refineRun(t, 3, limited(func(block int) int { return limits[block] })), 3)
	x := get(t, analyze(t, run), "highest_proxies", record.Cell{})
	if x.Low > 22 || x.High < 36 || x.Low < 20 || x.High > 40 || !strings.Contains(strings.Join(x.Warnings, "\n"), "of 2 blocks") && !strings.Contains(strings.Join(x.Warnings, "\n"), "of 3 blocks") {
		t.Errorf("%+v\n%v", x, tried)
	}
	// A level about which nothing can be said is passed over.
	machine := failing("simulator-lag")
	run, tried = searchRun(t, refineRun(t, 1, func(t *record.Trial, events []record.Event) {
		if t.Cell[study.FactorProxies] == "20" || t.Cell[study.FactorProxies] == "28" {
			machine(t, events)
			return
		}
		limited(func(int) int { return 29 })(t, events)
	}), 1)
	x = get(t, analyze(t, run), "highest_proxies", record.Cell{})
	if x.Low > 29 || x.High <= 29 || x.High > 34 || !strings.Contains(strings.Join(x.Warnings, "\n"), "simulator-lag: it failed") {
		t.Errorf("%+v\n%v", x, tried)
	}
}

// TestRefineAny: wherever the limit is, one block's interval holds it, is no
// wider than the tolerance but for whole numbers, and takes no more trials
// than the plan says.
func TestRefineAny(t *testing.T) {
	for _, limit := range []int{5, 10, 11, 15, 19, 20, 21, 33, 39, 47, 79, 80} {
		run, tried := searchRun(t, refineRun(t, 1, limited(func(int) int { return limit })), 1)
		findings, err := bothKinds().Analyze(run)
		if err != nil {
			t.Fatal(err)
		}
		x := get(t, findings, "highest_proxies", record.Cell{})
		switch {
		case limit < 10:
			if x.Low != 0 || x.High != 10 || len(tried) != 1 {
				t.Fatalf("%+v %v", x, tried)
			}
		case limit >= 80:
			if x.Low != 80 || x.High != 80 {
				t.Fatalf("%+v %v", x, tried)
			}
		default:
			if float64(limit) < x.Low || float64(limit) >= x.High || x.High > max(x.Low*1.1+1, x.Low+1) {
				t.Fatalf("limit %d: %+v %v", limit, x, tried)
			}
			s, _ := study.Parse(run.StudyYAML, "study.yaml", nil)
			plan, _ := study.NewPlan(s, 3)
			if e := plan.Estimate(); len(tried) > e.Trials {
				t.Fatalf("%d trials, the plan says %d at most: %v", len(tried), e.Trials, tried)
			}
		}
	}
}

// Whose fault it is that a trial is invalid.
func TestFailed(t *testing.T) {
	for _, test := range []struct {
		checks string // of one trial, those that failed
		why    string
		own    bool
	}{
		{"", "", false},
		{"connected", "connected", true},
		{"simulator-lag", "simulator-lag", false},
		{"connected simulator-lag", "simulator-lag", false},
		{"api-server connected", "api-server", false},
		{"api-server istiod-lived", "istiod-lived", true},
		{"istiod-metrics simulator-lag", "istiod-metrics", true},
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
