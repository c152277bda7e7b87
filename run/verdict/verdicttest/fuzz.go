// Package verdicttest fuzzes the judges of the kinds of study.
package verdicttest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/run/verdict"
)

// Fuzz checks that evidence is either judged, reproducibly and in a form that can be stored, or
// rejected with the trial's name. fresh returns the cases to judge it in, without evidence.
func Fuzz(f *testing.F, judge verdict.Judge, fresh func() []verdict.Case, seeds ...string) {
	for _, seed := range append(seeds, "", "null", "{}", "[]") {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		again := fresh()
		for i, c := range fresh() {
			once, err := judged(t, judge, c, text)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "evidence of trial "+c.Trial.ID+": ") {
					t.Errorf("%s: %v", text, err)
				}
				continue
			}
			if twice, err := judged(t, judge, again[i], text); err != nil || !bytes.Equal(once, twice) {
				t.Errorf("%s is judged as\n%s, and then as\n%s, %v", text, once, twice, err)
			}
		}
	})
}

// judged returns what is stored of a case that is judged by evidence.
func judged(t *testing.T, judge verdict.Judge, c verdict.Case, evidence []byte) ([]byte, error) {
	c.Evidence = evidence
	trial, events, err := judge(c)
	if err != nil {
		return nil, err
	}
	if len(trial.Validity.Checks) == 0 {
		t.Error("judged by nothing")
	}
	kept, err := json.Marshal([]any{trial, events})
	if err != nil {
		t.Errorf("what %s is judged as cannot be kept: %v", evidence, err)
	}
	return kept, nil
}
