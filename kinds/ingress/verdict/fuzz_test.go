package verdict

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// FuzzJudge: any evidence file is either judged, reproducibly and in a form that can be stored, or
// rejected with the trial's name.
func FuzzJudge(f *testing.F) {
	text, err := json.Marshal(evidence())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, seed := range []string{"", "null", "{}", `{"step_ns": 1}`, `{"step_ns": 1, "changes": [{}], "routes": [{"change": 0}], "watched": [{"statuses": {"503": 2}}]}`,
		`{"step_ns": 1, "changes": [{"change": 0}], "routes": [{"change": -1}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		judge := func() ([]byte, error) {
			out, events, err := Judge(verdict.Case{Trial: record.Trial{ID: "b000-t00"}, Evidence: text})
			if err != nil {
				return nil, err
			}
			if len(out.Validity.Checks) == 0 {
				t.Error("judged by nothing")
			}
			kept, err := json.Marshal([]any{out, events})
			if err != nil {
				t.Errorf("what %s is judged as cannot be kept: %v", text, err)
			}
			return kept, nil
		}
		once, err := judge()
		if err != nil {
			if !strings.HasPrefix(err.Error(), "evidence of trial b000-t00: ") {
				t.Errorf("%s: %v", text, err)
			}
			return
		}
		if twice, err := judge(); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s is judged as\n%s, and then as\n%s, %v", text, once, twice, err)
		}
	})
}
