package main

import (
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"github.com/meshmark/meshmark/stat"}
{"Action":"pass","Package":"github.com/meshmark/meshmark/stat","Test":"TestA","Elapsed":1.5}
{"Action":"output","Package":"github.com/meshmark/meshmark/stat","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"github.com/meshmark/meshmark/stat","Test":"TestB","Output":"    b_test.go:12: needs root\n"}
{"Action":"skip","Package":"github.com/meshmark/meshmark/stat","Test":"TestB"}
{"Action":"pass","Package":"github.com/meshmark/meshmark/stat","Elapsed":2}
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
		{"what the go command says", "go: no such module\n", false, []string{"go: no such module"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := report(strings.NewReader(tt.in), &out)
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
