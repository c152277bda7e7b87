package sections

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// When routes are served stands beside their ACKs, in a table and in sentences; other
// studies have neither.
func TestRoutesTable(t *testing.T) {
	f := reporttest.Routes(t)
	text := rendered(t, routesTable(f))
	says(t, text, "until the real gateway serves it", "first good request", "slowest", "ACK", "served after ACK", "known to within", "httproute-beside-500-virtualservices", "its own schedule of requests")
	answers := routeAnswers(f)
	if len(answers) != 4 || !strings.HasPrefix(answers[0], "With ") || !strings.Contains(answers[0], "a new route is served 13") || !strings.Contains(answers[0], "acknowledged after 11") {
		t.Errorf("%q", answers)
	}
	if text := rendered(t, attachedTable(f)); strings.Contains(text, "status") {
		t.Errorf("a status that nobody watched:\n%s", text)
	}
	other := reporttest.Tuning(t)
	if text := render(t, other, "text", report.Options{Width: 200}); strings.Contains(text, "real gateway") || strings.Contains(text, "Gateway's status") || len(routeAnswers(other)) > 0 {
		t.Error("a study without a real gateway tells of one")
	}
}

// How a status follows its routes has a table and sentences of its own.
func TestAttachedTable(t *testing.T) {
	f := reporttest.Attached(t)
	says(t, rendered(t, attachedTable(f)), "How a Gateway's status follows its routes", "all attached", "none left", "status writes up", "in all")
	answers := routeAnswers(f)
	if len(answers) != 3 || !strings.Contains(answers[0], "has all routes 20") || !strings.Contains(answers[0], "in 5 writes") || !strings.Contains(answers[0], "none 1,010 ms") {
		t.Errorf("%q", answers)
	}
	if text := rendered(t, routesTable(f)); strings.Contains(text, "served") {
		t.Errorf("routes that nobody asked for:\n%s", text)
	}
}
