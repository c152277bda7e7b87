package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/testing/must"
)

func scopeReport(t *testing.T, top int) scope.Report {
	t.Helper()
	dump := `{"configs":[{"@type":"t/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[` +
		`{"cluster":{"name":"outbound|80||a.x.svc.cluster.local"}},{"cluster":{"name":"outbound|80||=cmd\u001b[31m"}}]}]}`
	p, err := scope.ReadDump(strings.NewReader(dump), "pod\x1b[31m", scope.Options{})
	must.OK(t, err)
	p.SetCalls(map[string]int64{"outbound|80||a.x.svc.cluster.local": 0})
	return scope.Merge([]scope.Proxy{p}, top)
}

// A ztunnel is not a sidecar, and remarks about Envoys do not apply to it.
func TestRenderScopeOfZtunnels(t *testing.T) {
	proxy := func(kind string) scope.Proxy {
		return scope.Proxy{Name: kind, Kind: kind, Simulated: true, WireBytes: 10, Resources: 1,
			Types:  []scope.TypeSize{{Type: scope.TypeWorkload, Resources: 1, WireBytes: 10}},
			Owners: []scope.OwnerSize{{Owner: scope.Owner{Kind: scope.KindUnattributed, Name: "type istio.workload.Address"}, Resources: 1, WireBytes: 10}}}
	}
	for _, c := range []struct {
		kinds []string
		said  bool
	}{{[]string{scope.NodeZtunnel}, false}, {[]string{scope.NodeZtunnel, "sidecar"}, true}} {
		var proxies []scope.Proxy
		for _, kind := range c.kinds {
			proxies = append(proxies, proxy(kind))
		}
		var out strings.Builder
		must.OK(t, RenderScope(&out, scope.Merge(proxies, 0), 0, Options{Width: 400}))
		text := out.String()
		if !strings.Contains(text, "wds") {
			t.Errorf("%v: no type wds:\n%s", c.kinds, text)
		}
		for _, words := range []string{"For 1 simulated sidecar, JSON is what Envoy", "Not sent by istiod", "often an EnvoyFilter"} {
			if strings.Contains(text, words) != c.said {
				t.Errorf("%v: %q is there: %v\n%s", c.kinds, words, !c.said, text)
			}
		}
	}
}

// The words about a column are there with the column.
func TestRenderScopeShapes(t *testing.T) {
	for shaped, want := range map[int64]int{0: 0, 7: 2} {
		owner := scope.OwnerSize{Owner: scope.Owner{Kind: "DestinationRule", Name: "a"}, DumpBytes: 10, ShapedBytes: shaped}
		var out strings.Builder
		must.OK(t, RenderScope(&out, scope.Merge([]scope.Proxy{{Name: "a", DumpBytes: 10, Owners: []scope.OwnerSize{owner}}}, 0), 0, Options{Width: 400}))
		if got := strings.Count(strings.ToLower(out.String()), "shapes"); got != want {
			t.Errorf("%d bytes: %d times\n%s", shaped, got, out.String())
		}
	}
}

func TestRenderScope(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, RenderScope(&out, scopeReport(t, 1), 1, Options{}))
	for _, want := range []string{"Configuration of 1 proxy, 0.198 kB", "more owners", "Service x/a", "of 1 outbound cluster", "include_eds", `pod\x1b[31m`} {
		if !strings.Contains(strings.ToLower(out.String()), strings.ToLower(want)) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("a name acts on the terminal:\n%q", out.String())
	}
	out.Reset()
	if err := RenderScope(&out, scope.Merge(nil, 0), 0, Options{}); err != nil || !strings.Contains(out.String(), "0 proxies") {
		t.Errorf("%s, %v", out.String(), err)
	}
}
