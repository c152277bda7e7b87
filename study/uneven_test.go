package study

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/errs"
)

// A cell that ztunnel or a waypoint carries has no levers: where it is compared with one
// that has, the plan says so, once for all comparisons alike.
func TestUneven(t *testing.T) {
	const waypoint, ztunnel = ": a waypoint does what Istio does by default, retries included", ": ztunnel has no such lever"
	for _, c := range []struct{ text, want, hint string }{ // no want: nothing is said
		{"factors: {sidecars: [both, waypoint], retries: [\"off\", 3]}\nbaseline: {sidecars: both}\n",
			"waypoint is compared with both · no retries, which has retries off" + waypoint, "retries: default"},
		{"settings: {retries: 3, retry_on: 5xx}\nfactors: {sidecars: [both, ambient]}\nbaseline: {sidecars: both}\n",
			"ambient is compared with both, which has retries 3, retry_on 5xx" + ztunnel, "retries: off, retry_on: default"},
		{"settings: {outlier_detection: errors=5 max=100%}\nfactors: {sidecars: [both, waypoint]}\nbaseline: {sidecars: waypoint}\n",
			"both, which has outlier_detection errors=5 max=100%, is compared with waypoint" + waypoint, "outlier_detection: off"},
		{"settings: {mtls: \"off\", request_timeout: 1s}\nfactors: {sidecars: [both, ambient], rate: [10, 20]}\nbaseline: {sidecars: both}\n",
			"ambient · 10 rps is compared with both · 10 rps, which has request_timeout 1s, mtls off" + ztunnel + ", and ztunnel always encrypts; the same holds of 1 more", "request_timeout: none, mtls: permissive"},
		// Sidecars without levers, ztunnel where there are no retries, and nothing to compare with.
		{"settings: {mtls: strict}\nfactors: {sidecars: [both, ambient, waypoint]}\nbaseline: {sidecars: both}\n", "", ""},
		{"settings: {retries: \"off\"}\nfactors: {sidecars: [both, ambient]}\nbaseline: {sidecars: both}\n", "", ""},
		{"settings: {retries: \"off\"}\nfactors: {sidecars: [both, waypoint]}\nbaseline: {}\n", "", ""},
		{"settings: {retries: 3}\nfactors: {mesh: [none, istio], sidecars: [both, ambient]}\nbaseline: {mesh: none}\n", "", ""},
		{"factors: {sidecars: [ambient, waypoint]}\nbaseline: {sidecars: ambient}\n", "", ""},
	} {
		said := plan(t, vainGraph+c.text).Uneven()
		switch {
		case c.want == "":
			if len(said) > 0 {
				t.Errorf("%s%v", c.text, said)
			}
		case len(said) != 1 || said[0].Error() != c.want || !strings.HasSuffix(errs.Hint(said[0]), "have sidecars with "+c.hint):
			t.Errorf("%ssays %v\nwant %s (%s)", c.text, said, c.want, c.hint)
		}
	}
	if said := plan(t, "factors: {sidecars: [both, ambient], mtls: [\"off\", strict]}\nbaseline: {sidecars: both}\n").Uneven(); len(said) > 0 {
		t.Errorf("the data plane: %v", said)
	}
}
