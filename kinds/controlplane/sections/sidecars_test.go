package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// What an idle sidecar uses has its tables and sentences, with its processes apart
// and with changes beside none; other studies have neither.
func TestSidecarTables(t *testing.T) {
	f := reporttest.IdleSidecars(t)
	text := rendered(t, sidecarTables(f)...)
	says(t, text, "while nothing changes, mCPU", "while the mesh changes, mCPU", "sidecar", "Envoy", "agent", "beyond idle per change, ms",
		"Memory of a sidecar without requests, PSS", "idle, MB", "after changes, MB", "whole-mesh", "istio-system-only")
	answers := sidecarAnswers(f)
	if len(answers) != 3 || !strings.HasPrefix(answers[0], "With whole-mesh, an idle sidecar uses 4.") || !strings.Contains(answers[0], "of it in Envoy") ||
		!strings.Contains(answers[0], "and 60.0 MB; with 1.2 changes per second it uses 15.") {
		t.Errorf("%q", answers)
	}
	says(t, rendered(t, leversTable(f)), "idle sidecar's CPU", "with changes", "idle sidecar's memory")
	f.Cells = f.Cells[:1]
	f.Findings = dropped(f.Findings, "envoy_cpu_idle", "sidecar_memory_idle", "sidecar_cpu_changing")
	if got := sidecarAnswers(f); len(got) != 1 || !strings.HasPrefix(got[0], "An idle sidecar uses 4.") || !strings.HasSuffix(got[0], ").") {
		t.Errorf("of one figure: %q", got)
	}
	other := reporttest.Tuning(t)
	if text := render(t, other, "text", report.Options{Width: 200}); strings.Contains(text, "without requests") || len(sidecarAnswers(other)) > 0 {
		t.Error("a study that does not measure sidecars tells of them")
	}
}

func dropped(findings []record.Finding, names ...string) []record.Finding {
	var out []record.Finding
	for _, x := range findings {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+x.Name+" ") {
			out = append(out, x)
		}
	}
	return out
}
