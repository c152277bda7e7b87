package report

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/scope"
)

func scopeReport(t *testing.T, top int) scope.Report {
	t.Helper()
	dump := `{"configs":[{"@type":"t/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[` +
		`{"cluster":{"name":"outbound|80||a.x.svc.cluster.local"}},{"cluster":{"name":"outbound|80||=cmd\u001b[31m"}}]}]}`
	p, err := scope.ReadDump(strings.NewReader(dump), "pod\x1b[31m", scope.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.SetCalls(map[string]int64{"outbound|80||a.x.svc.cluster.local": 0})
	return scope.Merge([]scope.Proxy{p}, top)
}

func TestRenderScope(t *testing.T) {
	var out bytes.Buffer
	if err := RenderScope(&out, scopeReport(t, 1), 1, Options{}); err != nil {
		t.Fatal(err)
	}
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

func TestRenderScopeCSV(t *testing.T) {
	var out bytes.Buffer
	if err := RenderScopeCSV(&out, scopeReport(t, 0)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	calls, armed := 0, 0
	for _, row := range rows[1:] {
		if row[1] == "cluster" {
			calls++
		}
		for _, cell := range row {
			if strings.HasPrefix(cell, "=") {
				armed++
			}
		}
	}
	if calls != 1 || armed != 0 {
		t.Errorf("%d rows of clusters, %d formulas: %v", calls, armed, rows)
	}
}
