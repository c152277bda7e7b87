package main

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// jobsOf returns the jobs of plans.
func jobsOf(plans ...[][]lane) (all []job) {
	for _, plan := range plans {
		for _, l := range slices.Concat(plan...) {
			all = append(all, l.jobs...)
		}
	}
	return all
}

// flagOf returns the value of a flag of a job; "" without it.
func flagOf(j job, flag string) string {
	if at := slices.Index(j.command, flag); at >= 0 {
		return j.command[at+1]
	}
	return ""
}

// runs returns how often jobs run a package, or a test of it that their flag selects.
func runs(jobs []job, pkg, flag, test string) (n int) {
	for _, j := range jobs {
		skip := flagOf(j, "-skip")
		if slices.Contains(j.command, module+pkg) && (flag == "" || regexp.MustCompile(flagOf(j, flag)).MatchString(test)) &&
			(skip == "" || !regexp.MustCompile(skip).MatchString(test)) {
			n++
		}
	}
	return n
}

// with returns the jobs that have a word in their command, without those that have another.
func with(jobs []job, word, without string) []job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j job) bool {
		return !slices.Contains(j.command, word) || slices.Contains(j.command, without)
	})
}

func packagesHere(t *testing.T) []goPackage {
	t.Helper()
	t.Chdir("../..")
	packages, err := listPackages(t.Context())
	must.OK(t, err)
	return packages
}

// Every test of "test" runs once: those on labs in a lane, the others in parallel or alone.
func TestTestPlan(t *testing.T) {
	packages := packagesHere(t)
	plan, err := makePlan(modeTest, packages, share{}, true)
	must.OK(t, err)
	jobs := jobsOf(plan)
	whole := slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return flagOf(j, "-run") != "" })
	for _, p := range packages {
		if n := runs(whole, p.name, "", ""); n != 1 {
			t.Errorf("%s runs %d times", p.name, n)
		}
		for _, test := range slices.Concat(p.integration, p.plain) {
			if n := runs(jobs, p.name, "-run", test); n != 1 {
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

// Each test of "verify" runs once, in one of its shards, and the tests named here exist: a renamed
// test would otherwise run in the wrong place.
func TestVerifyPlan(t *testing.T) {
	packages := packagesHere(t)
	for _, shards := range []int{1, 4} {
		var plans [][][]lane
		for k := range shards {
			plan, err := makePlan(modeVerify, packages, share{shard: k + 1, shards: shards}, true)
			must.OK(t, err)
			plans = append(plans, plan)
		}
		jobs := jobsOf(plans...)
		onLabs, fuzzed, raced, compiled := with(jobs, "-tags", ""), with(jobs, "-fuzz", ""), with(jobs, "-race", "-exec"), with(jobs, "-exec", "")
		simulating := slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return flagOf(j, "-run") != simulations })
		once := func(what string, p goPackage, n int) {
			if n != 1 {
				t.Errorf("%d shards: %s of %s runs %d times", shards, what, p.name, n)
			}
		}
		for _, p := range packages {
			for _, name := range p.verify {
				once(name, p, runs(onLabs, p.name, "-run", name))
			}
			for _, name := range p.fuzz {
				once(name, p, runs(fuzzed, p.name, "-fuzz", name))
			}
			if p.simulates {
				once(fmt.Sprintf("the simulation with %d runs", simulated[p.name]), p, runs(simulating, p.name, "", ""))
			}
			for what, of := range map[string][]job{"the race detector": raced, "compilation for it": compiled} {
				if n := runs(of, p.name, "", ""); (n == 1) != p.concurrent || n > 1 {
					t.Errorf("%d shards: %s of %s runs %d times", shards, what, p.name, n)
				}
			}
			for _, name := range slices.Concat(guests[p.name], undisturbed[p.name]) {
				if !slices.Contains(p.verify, name) {
					t.Errorf("%s has no test %s", p.name, name)
				}
			}
		}
	}
	for _, name := range []string{"drive/load", "lab/journal", "cli", "stat", "analysis", "kinds/dataplane/findings"} {
		i := slices.IndexFunc(packages, func(p goPackage) bool { return p.name == name })
		starts := name == "drive/load" || name == "lab/journal" || name == "cli"
		if packages[i].concurrent != starts {
			t.Errorf("%s starts goroutines: %v", name, !starts)
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
