package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMain lets the test's program stand in for the go command of a second
// run: it prints the events of its environment.
func TestMain(m *testing.M) {
	if events := os.Getenv("TESTREPORT_EVENTS"); events != "" {
		fmt.Print(events)
		fmt.Println("arguments:", strings.Join(os.Args[1:], " "))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const events = `{"Action":"start","Package":"github.com/meshtrial/meshtrial/stat"}
{"Action":"pass","Package":"github.com/meshtrial/meshtrial/stat","Test":"TestA","Elapsed":1.5}
{"Action":"output","Package":"github.com/meshtrial/meshtrial/stat","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"github.com/meshtrial/meshtrial/stat","Test":"TestB","Output":"    b_test.go:12: needs root\n"}
{"Action":"skip","Package":"github.com/meshtrial/meshtrial/stat","Test":"TestB"}
{"Action":"pass","Package":"github.com/meshtrial/meshtrial/stat","Elapsed":2}
`

func TestReport(t *testing.T) {
	tests := []struct {
		name, in string
		ok       bool
		want     []string
	}{
		{"passed and skipped", events, true, []string{"1 passed, 0 failed, 1 skipped", "stat TestB: needs root"}},
		{"nothing ran", "", false, []string{"0 passed, 0 failed, 0 skipped"}},
		{"a failed test counts once", events +
			`{"Action":"output","Package":"x","Test":"TestC","Output":"    c_test.go:1: wrong\n"}
{"Action":"fail","Package":"x","Test":"TestC"}
{"Action":"fail","Package":"x"}
`, false, []string{"1 passed, 1 failed, 1 skipped", "c_test.go:1: wrong"}},
		{"a package that died", events +
			`{"Action":"output","Package":"y","Output":"panic: oh\n"}
{"Action":"fail","Package":"y"}
`, false, []string{"1 passed, 1 failed, 1 skipped", "panic: oh"}},
		{"a package that did not build counts once", events +
			`{"ImportPath":"z [z.test]","Action":"build-output","Output":"z.go:1: no\n"}
{"ImportPath":"z [z.test]","Action":"build-fail"}
{"Action":"fail","Package":"z","FailedBuild":"z [z.test]"}
`, false, []string{"1 passed, 1 failed, 1 skipped", "z.go:1: no"}},
		{"what the go command says", "go: no such module\n", false, []string{"go: no such module"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := run(strings.NewReader(tt.in), &out, 0, nil)
			if err != nil || ok != tt.ok {
				t.Errorf("ok = %v, err = %v, want ok = %v", ok, err, tt.ok)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestAgain(t *testing.T) {
	ev := func(action, test string) string {
		return fmt.Sprintf("{\"Action\":%q,\"Package\":%q,\"Test\":%q}\n", action, module+"p", test)
	}
	out := func(test, text string) string {
		return fmt.Sprintf("{\"Action\":\"output\",\"Package\":%q,\"Test\":%q,\"Output\":%q}\n", module+"p", test, text)
	}
	first := ev("pass", "TestA/y") + out("TestA/x", "not yet\n") + ev("fail", "TestA/x") + ev("fail", "TestA") + ev("pass", "TestB") + ev("fail", "")
	tests := []struct {
		name, first, second string
		again               int
		ok                  bool
		want                []string
		wantNot             string
	}{
		{"passes alone", first, ev("pass", "TestA/x") + ev("pass", "TestA/y") + ev("pass", "TestA"), 1, true,
			[]string{"4 passed, 0 failed", "DISTURBED: p TestA/x", "not yet", "arguments: -json -count=1 -run ^(TestA)$ " + module + "p"}, "FAILED"},
		{"fails again", first, out("TestA/x", "never\n") + ev("fail", "TestA/x") + ev("pass", "TestA/y") + ev("fail", "TestA"), 1, false,
			[]string{"2 passed, 2 failed", "not yet", "never"}, "DISTURBED"},
		{"another part fails then", first, ev("pass", "TestA/x") + ev("fail", "TestA/y") + ev("fail", "TestA"), 1, false,
			[]string{"1 passed, 3 failed"}, "DISTURBED"},
		{"does not run at all", first, "panic\n", 1, false, []string{"2 passed, 2 failed", "panic"}, "DISTURBED"},
		{"a skip is no pass", first, ev("skip", "TestA"), 1, false, []string{"2 passed, 2 failed"}, "DISTURBED"},
		{"too many", first + ev("fail", "TestC"), ev("pass", "TestA"), 1, false, []string{"3 failed"}, "arguments"},
		{"a package that died", out("", "panic: oh\n") + ev("pass", "TestB") + ev("fail", ""), ev("pass", "TestB") + ev("pass", "TestD"), 1, true,
			[]string{"2 passed, 0 failed", "DISTURBED: p:", "panic: oh", "arguments: -json -count=1 " + module + "p"}, "FAILED"},
		{"a package that dies again", out("", "panic: oh\n") + ev("fail", ""), out("", "panic: ah\n") + ev("fail", ""), 1, false,
			[]string{"0 passed, 1 failed", "panic: oh", "panic: ah"}, "DISTURBED"},
		{"a build", `{"Action":"fail","Package":"z","FailedBuild":"z"}` + "\n" + first, ev("pass", "TestA"), 5, false, []string{"3 failed"}, "arguments"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TESTREPORT_EVENTS", tt.second)
			var out strings.Builder
			ok, err := run(strings.NewReader(tt.first), &out, tt.again, []string{os.Args[0], "-json"})
			if err != nil || ok != tt.ok {
				t.Errorf("ok = %v, err = %v, want ok = %v", ok, err, tt.ok)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q:\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), tt.wantNot) {
				t.Errorf("output has %q:\n%s", tt.wantNot, out.String())
			}
		})
	}
}
