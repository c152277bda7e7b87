package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// A disruption that takes istiod from everyone is listed once, as mesh-wide. The restart before
// each trial is not, nor is what only the simulated proxies notice.
func TestPlanIstiod(t *testing.T) {
	for name, tt := range map[string]struct {
		levels   []string
		measures string
		done     string
		wide     []string
	}{
		"none":    {[]string{"none"}, "cost", "restarted before each trial", nil},
		"dropped": {[]string{"none", "drop"}, "recovery, cost", "restarted before each trial", nil},
		"all": {[]string{"kill", "restart", "scale:3"}, "recovery, cost", "restarted before each trial, killed in some, restarted once more in some, scaled to 3 replicas in some",
			[]string{"disruption kill: all proxies lose", "disruption restart: all proxies lose", "disruption scale:3: proxies that connect"}},
	} {
		text := fmt.Sprintf("name: all\nquestion: Who?\ncontrol: {changes: 1}\nsettings: {proxies: 4, change: no-op, istiod_replicas: 1}\nfactors:\n  disruption: [%s]\n  xds: [delta, sotw]\nbaseline: {disruption: %s, xds: delta}\nmeasures: [%s]\n",
			strings.Join(tt.levels, ", "), tt.levels[0], tt.measures)
		p := planIstiod(studytest.Plan(t, text))
		if string(p.Done) != tt.done || !slices.EqualFunc(p.Wide, tt.wide, strings.HasPrefix) {
			t.Errorf("%s: %s", name, journal.Text([]journal.Planned{p}))
		}
	}
}

// What others receive because of a population, and what its nodes receive, is listed; only --yes
// confirms it.
func TestPlanOfPopulationSaysWhatOthersAreTold(t *testing.T) {
	for want, sizes := range map[string]population.Sizes{
		"every proxy without a scope, including others', receives those Services and every change of theirs":                       {Services: 200},
		"receives those Services and every change of theirs, and 1000 ServiceEntries":                                              {Services: 1, ServiceEntries: 1000, DummyNamespace: "istio-system"},
		"simulated Nodes: made (run by kwok; of other workloads only DaemonSet pods that tolerate every taint are scheduled there": {Services: 1},
	} {
		plan := populationPlan(sizes)
		if text := journal.Text(plan); !strings.Contains(text, want+")\n") || strings.Contains(text, "mesh-wide") {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
