package study

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// quietGraph is a graph of two services without steps.
const quietGraph = "graph: {services: {a: {calls: [{to: b}]}, b: {replicas: 2}}}\nload: {to: a}\ntimeline: {duration: 5s}\n"

// A cell that ztunnel or a waypoint carries has no levers. If it is compared with one that has, the
// plan says so, once for all similar comparisons. With steps, the default retries of Istio's
// sidecars are such a lever.
func TestUneven(t *testing.T) {
	const waypoint, ztunnel = ": a waypoint does what Istio does by default, retries included", ": ztunnel has no such lever"
	happens := strings.Replace(quietGraph, "{duration: 5s}", "{duration: 5s, steps: [{name: gone, at: 1s, remove: {service: b}}]}", 1)
	for _, c := range []struct{ text, want, hint string }{ // no want: no note
		{quietGraph + "factors: {sidecars: [both, waypoint], retries: [\"off\", 3]}\nbaseline: {sidecars: both}\n",
			"waypoint is compared with both · no retries, which has retries off" + waypoint, "retries: default"},
		{quietGraph + "settings: {retries: 3, retry_on: 5xx}\nfactors: {sidecars: [both, ambient]}\nbaseline: {sidecars: both}\n",
			"ambient is compared with both, which has retries 3, retry_on 5xx" + ztunnel, "retries: off, retry_on: default"},
		{quietGraph + "settings: {outlier_detection: errors=5 max=100%}\nfactors: {sidecars: [both, waypoint]}\nbaseline: {sidecars: waypoint}\n",
			"waypoint is compared with both, which has outlier_detection errors=5 max=100%" + waypoint, "outlier_detection: off"},
		{quietGraph + "settings: {mtls: \"off\", request_timeout: 1s}\nfactors: {sidecars: [both, ambient], rate: [10, 20]}\nbaseline: {sidecars: both}\n",
			"ambient · 10 rps is compared with both · 10 rps, which has request_timeout 1s, mtls off" + ztunnel + ", and ztunnel always encrypts; the same applies to 1 more", "request_timeout: none, mtls: permissive"},
		{happens + "factors: {sidecars: [both, ambient]}\nbaseline: {sidecars: both}\n",
			"ambient is compared with both, which has retries default (Istio makes two)" + ztunnel, "retries: off"},
		{happens + "factors: {sidecars: [both, ambient, waypoint]}\nbaseline: {sidecars: ambient}\n",
			"ambient is compared with both, which has retries default (Istio makes two)" + ztunnel, "retries: off"},
		// The study has the cells already.
		{quietGraph + "factors: {sidecars: [both, ambient], retries: [3, \"off\"]}\nbaseline: {sidecars: both}\n",
			"ambient is compared with both · 3 retries, which has retries 3" + ztunnel, "retries: off"},
		{quietGraph + "factors: {sidecars: [both, ambient], retries: [3, \"off\"]}\nbaseline: {sidecars: ambient}\n",
			"ambient is compared with both · 3 retries, which has retries 3" + ztunnel, "retries: off"},
		// Sidecars without levers, ztunnel without retries, and nothing to compare with.
		{quietGraph + "settings: {mtls: strict}\nfactors: {sidecars: [both, ambient, waypoint]}\nbaseline: {sidecars: both}\n", "", ""},
		{happens + "factors: {sidecars: [both, waypoint]}\nbaseline: {sidecars: both}\n", "", ""},
		{happens + "settings: {retries: \"off\"}\nfactors: {sidecars: [both, ambient]}\nbaseline: {sidecars: both}\n", "", ""},
		{quietGraph + "settings: {retries: \"off\"}\nfactors: {sidecars: [both, waypoint]}\nbaseline: {}\n", "", ""},
		{quietGraph + "settings: {retries: 3}\nfactors: {mesh: [none, istio], sidecars: [both, ambient]}\nbaseline: {mesh: none}\n", "", ""},
		{happens + "factors: {sidecars: [ambient, waypoint]}\nbaseline: {sidecars: ambient}\n", "", ""},
	} {
		p := plan(t, c.text)
		said := p.Notes()[len(p.Unmeasured()):]
		if c.want == "" {
			if len(said) > 0 {
				t.Errorf("%s%v", c.text, said)
			}
			continue
		}
		if len(said) != 1 || said[0].Error() != c.want {
			t.Errorf("%ssays %v\nwant %s", c.text, said, c.want)
			continue
		}
		if !strings.HasSuffix(errs.Hint(said[0]), "compare cells with "+c.hint) {
			t.Errorf("%shint %q, want %q", c.text, errs.Hint(said[0]), c.hint)
		}
	}
}
