package analysis

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// The cause of a trial's invalidity is attributed correctly.
func TestFailed(t *testing.T) {
	for _, test := range []struct {
		checks string // failed checks of one trial
		why    string
		own    bool
	}{
		{"", "", false},
		{"connected", "connected", true},
		{"simulator-lag", "simulator-lag", false},
		{"connected simulator-lag", "simulator-lag", false},
		{"api-server connected", "api-server", false},
		{"api-server istiod-lived", "istiod-lived", true},
		{"istiod-metrics simulator-lag", "istiod-metrics", true},
	} {
		one := &record.Trial{}
		one.Validity.Checks = append(one.Validity.Checks, record.Check{Name: "account", OK: true})
		for _, name := range strings.Fields(test.checks) {
			one.Validity.Checks = append(one.Validity.Checks, record.Check{Name: name})
		}
		if why, own := failed([]*record.Trial{one}, IstiodsChecks); why != test.why || own != test.own {
			t.Errorf("%q: %q, %v; want %q, %v", test.checks, why, own, test.why, test.own)
		}
	}
}
