package rate_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]rate.Rate{"max": rate.Max, "1000": 1000, "0.5": 0.5, "1e3": 1000} {
		if got, err := rate.Parse(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "Max", "inf", "NaN", "10rps"} {
		if got, err := rate.Parse(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// TestJSON verifies that a rate survives JSON and its text form, and that a
// document cannot contain the number of Max.
func TestJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rate.Max
		if !rapid.Bool().Draw(t, "max") {
			r = rate.Rate(rapid.Float64Range(1e-3, 1e9).Draw(t, "rps"))
		}
		data, err := json.Marshal(r)
		must.OK(t, err)
		var back rate.Rate
		if err := json.Unmarshal(data, &back); err != nil || back != r {
			t.Errorf("%v came back from %s as %v, %v", r, data, back, err)
		}
		if back, err := rate.Parse(r.String()); err != nil || back != r {
			t.Errorf("%v came back from its word as %v, %v", r, back, err)
		}
	})
	for _, text := range []string{`-1`, `"fast"`, `{}`} {
		var r rate.Rate
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s is taken for %v", text, r)
		}
	}
}
