package churn

import (
	"strings"
	"testing"
)

func TestTraceValidate(t *testing.T) {
	good := Trace{Changes: []TraceChange{{0, KindService}, {250e6, KindEndpointsReplace}, {250e6, KindNoOp}}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, changes := range map[string][]TraceChange{
		"has no changes":            nil,
		"change 1 of the trace is":  {{2, KindService}, {1, KindService}},
		"change 0 of the trace is":  {{-1, KindService}},
		`is called "gatewayy"`:      {{0, "gatewayy"}},
		`is called "mixed"`:         {{0, KindMixed}},
		"changes are more than 400": make([]TraceChange, MaxChanges+1),
	} {
		if err := (&Trace{Changes: changes}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
