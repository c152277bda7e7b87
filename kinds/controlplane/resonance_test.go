package controlplane

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
)

// A schedule in step with istiod's debouncing is reported, any other is not.
func TestResonances(t *testing.T) {
	for _, tt := range []struct {
		settings string
		want     string // "" for nothing
	}{
		{"change_rate: 0.4, debounce_after: 2500ms", "debounce_after, 2.5s, is close to the time between changes, 2.5s"},
		{"change_rate: 0.4, debounce_after: 2300ms", "debounce_after, 2.3s, is close to"},
		{"change_rate: 0.4, debounce_after: 2200ms", ""},
		{"change_rate: 0.4, debounce_after: 3s", "debounce_max, 10s, is close to a multiple of the time between changes, 2.5s"},
		{"change_rate: 0.4, debounce_after: 3s, debounce_max: 11s", ""},
		{"change_rate: 20", ""},
		{"change_rate: 0.4", ""},
		{"change_rate: 5, debounce_after: 200ms", "debounce_after, 200ms, is close to"},
		// So fast that each of many changes is decided on its own.
		{"change_rate: 10", ""},
		{"change_rate: 9.5", ""},
		{"change_rate: 100, debounce_after: 10ms", ""},
		{"change_rate: 10, debounce_after: 300ms, debounce_max: 500ms", ""},
		{"change_rate: 10, change_arrival: poisson", ""},
		{"change_rate: 0.4, debounce_after: 2500ms, change_arrival: burst", ""},
		{"change_rate: 4, debounce_after: 2500ms, change_arrival: 'burst:10'", "2.5s, is close to the time between changes, 2.5s"},
		{"change_rate: 'ramp:1:10:5s', debounce_after: 1s", ""},
	} {
		p := controlPlan(t, "control: {changes: 20}\nsettings: {"+tt.settings+"}\n")
		got := note.Words(p.Warnings())
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q", tt.settings, got)
		}
	}
}
