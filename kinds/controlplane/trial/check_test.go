package trial

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// TestCheckPlaces: errors that only the driver or the population can find have a position in the
// file, a hint and the exit code of wrong usage.
func TestCheckPlaces(t *testing.T) {
	const head = "name: x\nquestion: Why?\ncontrol: {changes: 3}\n"
	for _, c := range []struct{ name, text, at, want, hint string }{
		{"no endpoints", head + "settings: {endpoints: 0, change: endpoints-scale}\n", "x.yaml:4:34: ", "cell 50 sidecars: endpoints-scale needs Services with endpoints", "more services"},
		{"too many pods", head + "settings: {services: 100000}\nfactors: {endpoints: [1, 100000]}\n", "x.yaml:4:22: ", "10000000000 pods are more than", "fewer"},
		{"gateway without gateways", head + "factors: {change: [gateway]}\n", "x.yaml:4:19: ", "no proxy of any cell needs change gateway", "gateways: 1"},
		{"hidden from all", head + "settings: {change: service, export_to: \"~\"}\n", "x.yaml:4:20: ", "no proxy of any cell needs change service", ""},
		{"more simulators than proxies", head + "settings: {proxies: 2, simulators: 3}\n", "x.yaml:4:36: ", "simulators 3: each needs a proxy of its own, and there are 2", "fewer simulators"},
		{"ztunnels without deltas", head + "settings: {ztunnels: 2, xds: sotw}\n", "x.yaml:4:22: ", "they support only delta xDS", "leave the ztunnels out"},
		{"HBONE without deltas", head + "settings: {xds: sotw, hbone: true}\n", "x.yaml:4:30: ", "hbone true: sidecars receive workloads only by delta xDS, and the cell has xds sotw", "use xds delta"},
		{"ztunnels of sidecars", head + "settings: {ztunnels: 2, istiod_env: PILOT_ENABLE_AMBIENT=false}\n", "x.yaml:4:22: ", "the cell has PILOT_ENABLE_AMBIENT=false", "set istiod_env: PILOT_ENABLE_AMBIENT=true, or leave the ztunnels out"},
		{"ztunnels of what is no true", head + "settings: {ztunnels: 2, istiod_env: PILOT_ENABLE_AMBIENT=yes}\n", "x.yaml:4:22: ", "the cell has PILOT_ENABLE_AMBIENT=yes", "istiod_env: PILOT_ENABLE_AMBIENT=true"},
		{"ztunnels for what they are not told", head + "settings: {ztunnels: 2, proxies: 0, change: virtualservice}\n", "x.yaml:4:45: ", "no proxy of any cell needs change virtualservice", ""},
		{"recorded changes", head[:len(head)-2] + ", trace: [1s endpoints-scale]}\nsettings: {services: 0, change: trace}\n", "x.yaml:4:33: ", "endpoints-scale needs", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := study.Parse([]byte(strings.Replace(c.text, "changes: 3, trace", "trace", 1)), "x.yaml", nil)
			must.OK(t, err)
			plan, err := study.NewPlan(s, 1)
			must.OK(t, err)
			err = Kind.Check(plan)
			if err == nil || errs.Code(err) != errs.CodeUsage || !strings.HasPrefix(err.Error(), c.at) ||
				!strings.Contains(err.Error(), c.want) || errs.Hint(err) == "" || !strings.Contains(errs.Hint(err), c.hint) {
				t.Errorf("%v\nhint %s", err, errs.Hint(err))
			}
		})
	}
	for _, good := range []string{
		"settings: {change: no-op}\n", // not needed by any proxy: that is its purpose
		"settings: {change: gateway, gateways: 1}\n",
		"factors: {change: [gateway, service]}\n",
		"settings: {proxies: 2, gateways: 1, simulators: 3}\n",
		"factors: {export_to: [\"~\", \"*\"]}\n",
		"settings: {ztunnels: 2, istiod_env: PILOT_ENABLE_AMBIENT=true}\n",
		"settings: {ztunnels: 2, istiod_env: PILOT_ENABLE_CDS_CACHE=false}\n", // as installed
		"settings: {ztunnels: 2, proxies: 0, change: service}\n",
		"settings: {xds: sotw, hbone: false}\n",
		"settings: {hbone: true}\n",
	} {
		if err := Kind.Check(studytest.Plan(t, head+good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
