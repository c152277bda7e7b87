package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// ev and out return events of a test of package p.
func ev(action, test string) string {
	return fmt.Sprintf("{\"Action\":%q,\"Package\":%q,\"Test\":%q,\"Elapsed\":1.5}\n", action, module+"p", test)
}

func out(test, text string) string {
	return fmt.Sprintf("{\"Action\":\"output\",\"Package\":%q,\"Test\":%q,\"Output\":%q}\n", module+"p", test, text)
}

// read returns the tally of events.
func read(t *testing.T, said *strings.Builder, events string) *tally {
	t.Helper()
	tests := newTally(said)
	must.OK(t, tests.read(strings.NewReader(events)))
	return tests
}

// says checks that output has all these words.
func says(t *testing.T, said *strings.Builder, words ...string) {
	t.Helper()
	for _, want := range words {
		if !strings.Contains(said.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, said)
		}
	}
}

// A failed test is shown when it fails, with the end of its output, so one need
// not wait for the others.
func TestFailureIsToldAtOnce(t *testing.T) {
	var said strings.Builder
	long := ""
	for i := range 40 {
		long += fmt.Sprintf("    c_test.go:1: line %d\n", i)
	}
	events := ""
	for line := range strings.Lines(long) {
		events += out("TestC", line)
	}
	read(t, &said, ev("start", "")+ev("run", "TestC")+events+ev("fail", "TestC"))
	says(t, &said, "failed: p TestC after ", "\n\t...\n", "\t    c_test.go:1: line 39\n")
	if strings.Contains(said.String(), "line 20\n") {
		t.Errorf("more than the end of the output:\n%s", said.String())
	}
}

func TestReport(t *testing.T) {
	events := ev("start", "") + ev("pass", "TestA") + out("TestB", "=== RUN   TestB\n") + out("TestB", "    b_test.go:12: needs root\n") + ev("skip", "TestB")
	tests := []struct {
		name, in string
		ok       bool
		want     []string
	}{
		{"passed and skipped", events + ev("pass", ""), true, []string{"\n1 passed, 0 failed, 1 skipped\n", "p TestB: needs root", "second tries: 0\n"}},
		{"nothing ran", "", false, []string{"0 passed, 0 failed, 0 skipped"}},
		{"a failed test counts once", events + out("TestC", "    c_test.go:1: wrong\n") + ev("fail", "TestC") + ev("fail", ""), false,
			[]string{"1 passed, 1 failed, 1 skipped", "c_test.go:1: wrong"}},
		{"a package that died", events + out("", "panic: oh\n") + ev("fail", ""), false, []string{"1 passed, 1 failed, 1 skipped", "panic: oh"}},
		{"tests that do not end have failed", events + ev("run", "TestC") + ev("run", "TestC/x") + out("TestC/x", "panic: test timed out after 25m0s\n") + out("", "FAIL\n") + ev("fail", ""), false,
			[]string{"1 passed, 2 failed, 1 skipped", "FAILED: p TestC\nit did not end", "FAILED: p TestC/x\nit did not end: the process of its package did\npanic: test timed out"}},
		{"tests that end have not", ev("run", "TestC") + ev("pass", "TestC") + ev("fail", ""), false, []string{"1 passed, 1 failed", "FAILED: p\n"}},
		{"a fuzz target that runs out of time found nothing", out("FuzzA", "--- FAIL: FuzzA (11.02s)\n    context deadline exceeded\n") + ev("fail", "FuzzA") + out("", "exit status 1\n") + ev("fail", ""), true, []string{"1 passed, 0 failed"}},
		{"a fuzz target that finds something", out("FuzzA", "--- FAIL: FuzzA (1.02s)\n    Failing input written to testdata/fuzz/FuzzA/1\n    context deadline exceeded\n") + ev("fail", "FuzzA") + ev("fail", ""), false, []string{"0 passed, 1 failed"}},
		{"a package that did not build counts once", events +
			`{"ImportPath":"z [z.test]","Action":"build-output","Output":"z.go:1: no\n"}
{"ImportPath":"z [z.test]","Action":"build-fail"}
{"Action":"fail","Package":"z","FailedBuild":"z [z.test]"}
`, false, []string{"1 passed, 1 failed, 1 skipped", "z.go:1: no"}},
		{"what the go command says", "go: no such module\n", false, []string{"go: no such module"}},
		{"minutes", events + out("TestA", "    shared.go:9: lab one: wanted\n") + out("TestA", "    labtest.go:9: lab one: up in 24.0 s\n") +
			out("TestA", "    labtest.go:9: lab one: used for 90.0 s\n") + `{"Action":"pass","Package":"p","Elapsed":120}`, true,
			[]string{"of 3.0 in all", "2.00  p\n", "1.50  one: started 1 times, 24 s till it was up; p 1.50\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var said strings.Builder
			tests := read(t, &said, tt.in)
			if ok := tests.report(3 * time.Minute); ok != tt.ok {
				t.Errorf("ok = %v, want %v", ok, tt.ok)
			}
			says(t, &said, tt.want...)
		})
	}
}

// lab is the log line of a test on a lab.
const lab = "    labtest.go:1: lab of-p: wanted\n"

func TestAgain(t *testing.T) {
	first := out("TestA", lab) + ev("pass", "TestA/y") + out("TestA/x", "not yet\n") + ev("fail", "TestA/x") + ev("fail", "TestA") + ev("pass", "TestB") + ev("fail", "")
	died := out("TestA", lab) + out("", "panic: oh\n") + ev("pass", "TestB") + ev("fail", "")
	tests := []struct {
		name, first, second string
		most                int
		ok                  bool
		want                []string
		wantNot             string
	}{
		{"passes alone", first, ev("pass", "TestA/x") + ev("pass", "TestA/y") + ev("pass", "TestA"), 1, true,
			[]string{"4 passed, 0 failed", "DISTURBED: p TestA:", "not yet", "second tries: 1\n4 passed", "asked for [TestA]"}, "FAILED"},
		{"fails again", first, out("TestA/x", "never\n") + ev("fail", "TestA/x") + ev("pass", "TestA/y") + ev("fail", "TestA"), 1, false,
			[]string{"2 passed, 2 failed", "not yet", "never", "second tries: 0"}, "DISTURBED"},
		{"another part fails then", first, ev("pass", "TestA/x") + out("TestA/y", "why\n") + ev("fail", "TestA/y") + ev("fail", "TestA"), 1, false,
			[]string{"2 failed", "why"}, "DISTURBED"},
		{"does not run at all", first, "panic\n", 1, false, []string{"2 failed", "it did not run"}, "DISTURBED"},
		{"a skip is no pass", first, ev("skip", "TestA"), 1, false, []string{"2 failed"}, "DISTURBED"},
		{"the package dies then", first, ev("pass", "TestA") + out("", "panic: ah\n") + ev("fail", ""), 1, false, []string{"2 failed", "panic: ah"}, "DISTURBED"},
		{"too many", first + ev("fail", "TestC"), ev("pass", "TestA"), 1, false, []string{"3 failed"}, "asked"},
		{"on no lab", strings.Replace(first, "lab of-p", "of-p", 1), ev("pass", "TestA"), 1, false, []string{"2 failed"}, "asked"},
		{"a package that died", died, ev("pass", "TestB"), 1, false, []string{"1 passed, 1 failed", "panic: oh"}, "asked"},
		{"dies of another test", first[:len(first)-len(ev("fail", ""))] + ev("run", "TestC") + ev("fail", ""), ev("pass", "TestA"), 9, false, []string{"3 failed", "p TestC"}, "asked"},
		{"dies by a signal", first[:len(first)-len(ev("fail", ""))] + out("", "signal: killed\n") + ev("fail", ""), ev("pass", "TestA"), 9, false, []string{"2 failed"}, "asked"},
		{"dies by a panic", first[:len(first)-len(ev("fail", ""))] + out("", "exit status 2\n") + ev("fail", ""), ev("pass", "TestA"), 9, false, []string{"2 failed"}, "asked"},
		{"ends as failed tests do", first[:len(first)-len(ev("fail", ""))] + out("", "FAIL\nexit status 1\n") + ev("fail", ""), ev("pass", "TestA/x") + ev("pass", "TestA"), 9, true, []string{"0 failed", "second tries: 1"}, "FAILED"},
		{"another test of its package", first[:len(first)-len(ev("fail", ""))] + ev("fail", "TestC") + ev("fail", ""), ev("pass", "TestA") + ev("pass", "TestC"), 9, false, []string{"1 failed", "asked for [TestA]\n", "FAILED: p TestC"}, "FAILED: p TestA"},
		{"a build", `{"Action":"fail","Package":"z","FailedBuild":"z"}` + "\n" + first, ev("pass", "TestA"), 1, false, []string{"3 failed"}, "asked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var said strings.Builder
			all := read(t, &said, tt.first)
			err := all.again(tt.most, func(pkg string, names []string) (*tally, error) {
				fmt.Fprintln(&said, "asked for", names)
				return read(t, &said, tt.second), nil
			})
			if ok := all.report(time.Minute); ok != tt.ok || err != nil {
				t.Errorf("ok = %v, want %v; %v", ok, tt.ok, err)
			}
			says(t, &said, tt.want...)
			if tt.wantNot != "" && strings.Contains(said.String(), tt.wantNot) {
				t.Errorf("output has %q:\n%s", tt.wantNot, said.String())
			}
		})
	}
}

// A test may need one retry in ten runs.
func TestHistory(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	judge := func(disturbed bool) (failed bool, said string) {
		t.Helper()
		var b strings.Builder
		all := newTally(&b)
		r := result{pkg: module + "p", test: "TestA"}
		all.passed = append(all.passed, r)
		if disturbed {
			all.disturbed = append(all.disturbed, r)
		}
		openHistory(&b).judge(all)
		return !all.report(time.Minute), b.String()
	}
	for run, disturbed := range []bool{true, false, false, false, false, false, false, false, false, false, true} {
		if failed, said := judge(disturbed); failed { // the second is ten runs later
			t.Errorf("run %d failed:\n%s", run, said)
		}
	}
	if failed, said := judge(false); failed {
		t.Errorf("a run without a second try failed:\n%s", said)
	}
	if failed, said := judge(true); !failed || !strings.Contains(said, "0 passed, 1 failed") || !strings.Contains(said, "for the second time in 10 runs") {
		t.Errorf("the second within ten runs:\n%s", said)
	}
	path := filepath.Join(cache, "meshtrial", "second-tries.jsonl")
	must.OK(t, os.WriteFile(path, []byte("no history\n"), 0o644))
	if failed, said := judge(true); failed {
		t.Errorf("a damaged history:\n%s", said)
	}
	must.OK(t, os.Remove(path))
	must.OK(t, os.Mkdir(path, 0o755))
	if failed, said := judge(true); failed || !strings.Contains(said, "are not known") {
		t.Errorf("a history that cannot be read:\n%s", said)
	}
}
