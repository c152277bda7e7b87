package verdict

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/run/verdict"
)

// FuzzJudge: any evidence file is either judged, reproducibly and in a form that can be stored, or
// rejected with the trial's name.
func FuzzJudge(f *testing.F) {
	trial, e := aTrial(3, 2)
	f.Add(encoded(f, e))
	trial, e = aTrial(5, 6)
	spread(&trial, &e)
	f.Add(encoded(f, e))
	for _, seed := range []string{"", "null", "{}", "[]", `{"end_unix_ns": 1}`, `{"end_unix_ns": 1, "audience": {"simulated": 1, "proxies": [{}]}}`,
		`{"end_unix_ns": 9223372036854775807, "markers": [{"change": -1, "marker": 7}], "changes": []}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		trial, _ := aTrial(3, 2)
		judge := func() ([]byte, error) {
			out, events, err := Judge(verdict.Case{Trial: trial, Evidence: text})
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
			if !strings.HasPrefix(err.Error(), "evidence of trial "+trial.ID+": ") {
				t.Errorf("%s: %v", text, err)
			}
			return
		}
		if twice, err := judge(); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s is judged as\n%s, and then as\n%s, %v", text, once, twice, err)
		}
	})
}
