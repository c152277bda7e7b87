package resilience

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestCalloutLevel(t *testing.T) {
	for level, want := range map[string]string{ // "" if it is rejected
		"off":                              "off",
		"to=checker filter=ext-authz-grpc": "filter=ext-authz-grpc to=checker",
		"timeout=1000ms fail=open filter=rate-limit-global to=b": "filter=rate-limit-global to=b fail=open timeout=1s",
		"":                                        "",
		"filter=ext-authz-grpc":                   "",
		"to=checker":                              "",
		"filter=ext-authz to=checker":             "",
		"filter=ext-authz-http to=Checker":        "",
		"filter=ext-authz-http to=b fail=never":   "",
		"filter=ext-authz-http to=b timeout=none": "",
		"filter=ext-authz-http to=b on=5xx":       "",
	} {
		got, c := calloutLevel(level)
		if (c == nil) != (want != "") || c == nil && got != want {
			t.Errorf("%q is %q (%v), expected %q", level, got, c, want)
		}
		if c != nil && c.Hint == "" && c.Msg == "" {
			t.Errorf("%q: the error says nothing", level)
		}
	}
}

// TestCheckCallouts: a callout names a service of the graph that can answer it.
func TestCheckCallouts(t *testing.T) {
	const text = `name: a
question: b
graph:
  services:
    bar: {%s}
    checker: {%s}
load: {to: bar}
timeline: {duration: 10s}
variants:
  asks: {callout: filter=%s to=%s}
  off: {}
`
	for _, tt := range []struct {
		bar, checker, filter, to string
		code                     study.Code // "" if it is accepted
	}{
		{"", "sidecar: false, protocol: grpc", "ext-authz-grpc", "checker", ""},
		{"", "sidecar: false, protocol: grpc", "rate-limit-global", "checker", ""},
		{"", "sidecar: false", "ext-authz-http", "checker", ""},
		{"", "sidecar: false", "ext-authz-grpc", "checker", study.CodeConflict},
		{"", "sidecar: false, protocol: grpc", "ext-authz-http", "checker", study.CodeConflict},
		{"", "protocol: grpc", "ext-authz-grpc", "checker", study.CodeConflict},
		{"sidecar: false", "sidecar: false", "ext-authz-http", "checker", study.CodeConflict},
		{"", "sidecar: false", "ext-authz-http", "bar", study.CodeConflict},
		{"gateway: true, calls: [{to: checker}]", "sidecar: false", "ext-authz-http", "checker", study.CodeConflict},
		{"", "sidecar: false", "ext-authz-http", "chekcer", study.CodeUnknown},
	} {
		_, err := study.Parse(fmt.Appendf(nil, text, tt.bar, tt.checker, tt.filter, tt.to), "a.yaml", nil)
		if tt.code == "" {
			must.OK(t, err)
			continue
		}
		var found study.Errors
		if !errors.As(err, &found) || found[0].Code != tt.code || found[0].Pos.Line == 0 || !strings.Contains(err.Error(), "callout") {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
