package errs

import (
	"strings"
	"testing"
)

func TestSuggest(t *testing.T) {
	many := []string{"rate", "connections", "payload", "protocol", "mtls", "envoy", "filters"}
	for _, tt := range []struct {
		word     string
		possible []string
		want     string
	}{
		{"rat", many, "did you mean rate?"},
		{"Rate", many, "did you mean rate?"},
		{"palyoad", many, "did you mean payload?"}, // swapped neighbours count once
		{"on", []string{"off", "strict"}, "possible: off, strict"},
		{"strcit", []string{"off", "strict"}, "did you mean strict? (possible: off, strict)"},
		{"xyzzy", many, "possible: rate, connections, payload, protocol, mtls, envoy, filters"},
		{"", []string{"a"}, "possible: a"},
	} {
		if got := Suggest(tt.word, tt.possible); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.word, got, tt.want)
		}
		near := ""
		if meant, _, found := strings.Cut(tt.want, "?"); found {
			near = meant + "?"
		}
		if got := Nearest(tt.word, tt.possible); got != near {
			t.Errorf("nearest to %q: %q, want %q", tt.word, got, near)
		}
	}
}
