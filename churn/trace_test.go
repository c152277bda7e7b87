package churn

import (
	"slices"
	"strings"
	"testing"
)

func TestParseTrace(t *testing.T) {
	trace, err := ParseTrace("t", strings.NewReader("# offsets and kinds\n0 service\n\n0.25, endpoints-replace\r\n 0.25\tno-op\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []TraceChange{{0, KindService}, {250e6, KindEndpointsReplace}, {250e6, KindNoOp}}
	if !slices.Equal(trace.Changes, want) {
		t.Errorf("%+v", trace.Changes)
	}
	for text, want := range map[string]string{
		"":                       "t: no changes",
		"1 service\n0 service\n": "t:2: offset 0: the change before it is later",
		"x service\n":            `t:1: offset "x"`,
		"-1 service\n":           `t:1: offset "-1"`,
		"NaN service\n":          `t:1: offset "NaN"`,
		"1\n":                    "t:1: want OFFSET_SECONDS KIND",
		"1 service 3\n":          "t:1: want OFFSET_SECONDS KIND",
		"1 gatewayy\n":           `t:1: kind "gatewayy"`,
		"1 mixed\n":              `t:1: kind "mixed"`,
		"0 service\n" + strings.Repeat("1", 5000): "t:2: the line is longer",
		strings.Repeat("0 no-op\n", MaxChanges+1): "t:40001: more than 40000",
	} {
		if _, err := ParseTrace("t", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParseTrace(f *testing.F) {
	for _, seed := range []string{"0 service\n1 no-op\n", "0,sidecar\n", "# x\n\n1e-3 telemetry\n", "1 mixed\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ParseTrace("t", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "t:") {
				t.Fatalf("error without a position: %v", err)
			}
			return
		}
		if err := trace.Validate(); err != nil {
			t.Fatalf("parsed, but not valid: %v", err)
		}
	})
}
