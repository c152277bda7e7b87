//go:build integration

package runner_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// slowTold is a study in which a pod that serves requests is deleted while istiod
// pushes nothing for 2.5 s.
const slowTold = `
name: slow-told
question: What do requests meet?
control: {changes: 1, settle: 2m, quiet: 500ms, idle: 0s, traffic: {rate: 50, connections: 400}}
settings: {services: 2, proxies: 2, change: endpoints-replace, change_rate: 1, debounce_after: 2500ms}
blocks: {min: 1, max: 1}
`

// TestControlTraffic deletes a pod that receives real requests: some of them reach
// it, the accounts of the generator, the sidecar's log and the sidecar's counter
// agree, and nothing is left behind. The run changes only the istiod lever that the
// study names.
func TestControlTraffic(t *testing.T) {
	b := newBench(t)
	istiod, config := b.installed(t)
	run := b.slowlyTold(t)
	x := run.Trials[0].Control.Traffic
	if x.Requests < 100 || x.Gone != 1 || x.Completed+x.FailedTotal()+x.Unfinished != x.Requests {
		t.Errorf("%d requests, %d completed, %v failed, %d unfinished; %d endpoints went", x.Requests, x.Completed, x.Failed, x.Unfinished, x.Gone)
	}
	// 2.5 s contain 125 requests, half of them for the deleted pod.
	if x.PhantomRequests < 10 || x.PhantomFailures+x.PhantomHidden < 5 || x.LastPhantomUS < 1e6 {
		t.Errorf("%d met an endpoint that was gone, the last after %.0f us: %d failed, %d were saved", x.PhantomRequests, x.LastPhantomUS, x.PhantomFailures, x.PhantomHidden)
	}
	if x.PhantomRequests != x.PhantomServed+x.PhantomHidden+x.PhantomFailures+x.PhantomOpen || x.Residual != 0 {
		t.Errorf("fates that do not add up, or failures nobody knows of: %+v", x)
	}
	checks := map[string]record.Check{}
	for _, c := range run.Trials[0].Validity.Checks {
		checks[c.Name] = c
	}
	for _, name := range []string{"traffic-account", "traffic-log", "committed", "account"} {
		if c := checks[name]; !c.OK {
			t.Errorf("%s: %s", name, c.Detail)
		}
	}
	b.undone(t)
	b.touched(t, run.Trials[0], study.FactorDebounceAfter)
	istiodNow, configNow := b.installed(t)
	if !equality.Semantic.DeepEqual(istiod.Spec, istiodNow.Spec) {
		t.Errorf("istiod is not as it was installed:\n%+v\n%+v", istiod.Spec, istiodNow.Spec)
	}
	if config.ResourceVersion != configNow.ResourceVersion {
		t.Errorf("the mesh configuration was written, though no lever of it is named:\n%+v\n%+v", config, configNow)
	}
}

// slowlyTold runs [slowTold]. The sidecar may not know of a request that its
// generator gave up while the machine stood still. If all unknown failures are of
// that kind, the study is run again.
func (b *bench) slowlyTold(t *testing.T) record.Run {
	t.Helper()
	path := b.file(t, "slow-told", slowTold)
	for attempt := 1; ; attempt++ {
		out := filepath.Join(b.dir, fmt.Sprintf("slow-told-%d", attempt))
		code, text := b.meshtrial(t, "run", path, "--out", out)
		measured(t, code, text)
		run, notes, err := store.Load(t.Context(), out)
		if err != nil || len(notes) > 0 || len(run.Trials) != 1 || run.Trials[0].Control == nil || run.Trials[0].Control.Traffic == nil {
			t.Fatalf("%v, %v, %d trials:\n%s", err, notes, len(run.Trials), text)
		}
		x := run.Trials[0].Control.Traffic
		if late := x.Unfinished + x.Failed[load.FailTimeout]; x.Residual <= 0 || x.Residual > late || attempt == attempts {
			return run
		}
		t.Logf("measured again: %d requests unfinished, %d timed out, of which the sidecar does not know %d", x.Unfinished, x.Failed[load.FailTimeout], x.Residual)
	}
}

// installed returns istiod's Deployment, and the ConfigMap with its mesh
// configuration.
func (b *bench) installed(t *testing.T) (*appsv1.Deployment, *corev1.ConfigMap) {
	t.Helper()
	istiod, err := b.kube.AppsV1().Deployments("istio-system").Get(t.Context(), "istiod", metav1.GetOptions{})
	must.OK(t, err)
	config, err := b.kube.CoreV1().ConfigMaps("istio-system").Get(t.Context(), "istio", metav1.GetOptions{})
	must.OK(t, err)
	return istiod, config
}

// touched checks that a trial verified one lever, and recorded the installed values
// of all others.
func (b *bench) touched(t *testing.T, trial record.Trial, only string) {
	t.Helper()
	for _, f := range controlplane.Levers() {
		level, found := trial.Control.Installed[f.Name]
		switch {
		case f.Name == only && found:
			t.Errorf("%s is named, and yet recorded as installed: %s", f.Name, level)
		case f.Name != only && !found && f.Usual != "" && f.Name != controlplane.FactorSidecarHosts: // there are none without a Sidecar
			t.Errorf("nothing says what %s was as installed", f.Name)
		}
		if f.Lever.Env == "" {
			continue
		}
		proved := slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool { return c.Name == "env "+f.Lever.Env })
		if proved != (f.Name == only) {
			t.Errorf("%s of istiod's environment was looked for: %v", f.Lever.Env, proved)
		}
	}
	if strange := slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool { return strings.HasPrefix(c.Name, "mesh ") || c.Name == "sidecar-scope" }); strange {
		t.Errorf("levers that nobody named were to be proved: %+v", trial.Validity.Checks)
	}
}
