package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Each test of "verify" runs once, and the tests named here exist: a renamed test would
// otherwise run in the wrong place.
func TestVerifyPlan(t *testing.T) {
	t.Chdir("../..")
	packages, err := listPackages(t.Context())
	must.OK(t, err)
	t.Run("whole", func(t *testing.T) { onceEach(t, packages, share{}) })
	t.Run("shards", func(t *testing.T) {
		onceEach(t, packages, share{shard: 1, shards: 4}, share{shard: 2, shards: 4}, share{shard: 3, shards: 4}, share{shard: 4, shards: 4})
	})
}

// Every test of "test" runs once: those on labs in a lane, the others in parallel or alone.
func TestTestPlan(t *testing.T) {
	t.Chdir("../..")
	packages, err := listPackages(t.Context())
	must.OK(t, err)
	plan, err := makePlan(modeTest, packages, share{}, true)
	must.OK(t, err)
	whole, runs := map[string]int{}, map[string]int{} // packages without their tests on labs; tests by package and name
	for _, stage := range plan {
		for _, l := range stage {
			for _, j := range l.jobs {
				run, skip := regexp.MustCompile(flagOf(j, "-run")), regexp.MustCompile(flagOf(j, "-skip"))
				for _, p := range packages {
					if !slices.Contains(j.command, module+p.name) {
						continue
					}
					if flagOf(j, "-run") == "" {
						whole[p.name]++
					}
					for _, test := range slices.Concat(p.integration, p.plain) {
						if run.MatchString(test) && (flagOf(j, "-skip") == "" || !skip.MatchString(test)) {
							runs[p.name+" "+test]++
						}
					}
				}
			}
		}
	}
	for _, p := range packages {
		if whole[p.name] != 1 {
			t.Errorf("%s runs %d times", p.name, whole[p.name])
		}
		for _, test := range slices.Concat(p.integration, p.plain) {
			if n := runs[p.name+" "+test]; n != 1 {
				t.Errorf("%s %s runs %d times", p.name, test, n)
			}
		}
	}
	for test := range elsewhere {
		if !slices.ContainsFunc(packages, func(p goPackage) bool { return slices.Contains(p.integration, test) }) {
			t.Errorf("there is no test %s", test)
		}
	}
}

// flagOf returns the value of a flag of a job; "" without it.
func flagOf(j job, flag string) string {
	if at := slices.Index(j.command, flag); at >= 0 {
		return j.command[at+1]
	}
	return ""
}

// onceEach compares parts of "verify" with everything that it must run.
func onceEach(t *testing.T, packages []goPackage, parts ...share) {
	runs := map[string]int{}
	targets := map[string]int{}
	raced, compiled, simulating := map[string]int{}, map[string]int{}, map[string]int{}
	var stages [][]lane
	for _, part := range parts {
		plan, err := makePlan(modeVerify, packages, part, true)
		must.OK(t, err)
		stages = append(stages, plan...)
	}
	for _, stage := range stages {
		for _, l := range stage {
			for _, j := range l.jobs {
				if at := slices.Index(j.command, "-fuzz"); at >= 0 {
					targets[j.command[len(j.command)-1]+" "+j.command[at+1]]++
					continue
				}
				if slices.Contains(j.command, "-race") {
					into := raced
					if slices.Contains(j.command, "-exec") {
						into = compiled
					}
					for _, word := range j.command {
						if name, ok := strings.CutPrefix(word, module); ok {
							into[name]++
						}
					}
					continue
				}
				at := slices.Index(j.command, "-run")
				if at < 0 {
					continue
				}
				if j.command[at+1] == simulations {
					simulating[short(j.command[len(j.command)-1])]++
					continue
				}
				names := strings.TrimSuffix(strings.TrimPrefix(j.command[at+1], "^("), ")$")
				for name := range strings.SplitSeq(names, "|") {
					runs[short(j.command[len(j.command)-1])+" "+name]++
				}
			}
		}
	}
	for _, p := range packages {
		if p.simulates && (simulated[p.name] == 0 || simulating[p.name] != 1) {
			t.Errorf("%s has simulations of %d runs, run %d times", p.name, simulated[p.name], simulating[p.name])
		}
		for _, name := range p.verify {
			if n := runs[p.name+" "+name]; n != 1 {
				t.Errorf("%s %s runs %d times", p.name, name, n)
			}
			delete(runs, p.name+" "+name)
		}
		for _, table := range []map[string][]string{guests, undisturbed} {
			for _, name := range table[p.name] {
				if !slices.Contains(p.verify, name) {
					t.Errorf("%s has no test %s", p.name, name)
				}
			}
		}
	}
	if !maps.Equal(raced, compiled) {
		t.Errorf("for the race detector are compiled %v, and run %v", compiled, raced)
	}
	for _, name := range []string{"drive/load", "lab/journal", "cli"} {
		if raced[name] != 1 {
			t.Errorf("the race detector runs the tests of %s %d times", name, raced[name])
		}
	}
	for _, name := range []string{"stat", "analysis", "kinds/dataplane/findings", "advise/capacity/model", "advise/capacity/push"} {
		if raced[name] != 0 {
			t.Errorf("%s starts no goroutine, and the race detector runs its tests", name)
		}
	}
	if len(runs) > 0 {
		t.Errorf("what is no test runs: %v", runs)
	}
	if len(targets) == 0 {
		t.Error("no fuzz target runs")
	}
	for name, n := range targets {
		if n != 1 {
			t.Errorf("fuzz target %s runs %d times", name, n)
		}
	}
}

func TestShareOf(t *testing.T) {
	for _, c := range []struct {
		shard, run string
		ok         bool
	}{
		{"", "", true}, {"2/4", "", true}, {"1/1", "", true}, {"", "Waits|Nodes", true},
		{"0/4", "", false}, {"5/4", "", false}, {"2", "", false}, {"a/b", "", false}, {"-1/-1", "", false}, {"", "(", false},
	} {
		_, err := shareOf(func(name string) string { return map[string]string{"SHARD": c.shard, "RUN": c.run}[name] })
		if (err == nil) != c.ok {
			t.Errorf("SHARD=%s RUN=%s: %v", c.shard, c.run, err)
		}
	}
}

func TestRunSelectsTestsOnLabs(t *testing.T) {
	packages := []goPackage{
		{name: "lab/local", concurrent: true, verify: []string{"TestWaits", "TestNodes"}, fuzz: []string{"FuzzWaits"}},
		{name: "stat", fuzz: []string{"FuzzWaits"}},
	}
	got, err := share{only: regexp.MustCompile("Waits")}.of(packages)
	if err != nil || len(got) != 1 || got[0].name != "lab/local" || !slices.Equal(got[0].verify, []string{"TestWaits"}) || got[0].concurrent || got[0].fuzz != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := (share{only: regexp.MustCompile("Nothing")}).of(packages); err == nil {
		t.Error("a pattern without a match is no error")
	}
}
