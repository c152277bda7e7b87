package advice

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// A longer debounce time is reached by 10 to 30% per step, each with the way back to
// the previous value; a Sidecar is first applied to parts of the mesh.
func TestCareful(t *testing.T) {
	tuned := &record.Tuning{
		Recommended: record.Cell{study.FactorDebounceAfter: "2.5s", controlplane.FactorSidecarScope: "mesh",
			controlplane.FactorSidecarHosts: "istio-system/*,prometheus/*", controlplane.FactorIstiodReplicas: "3",
			controlplane.FactorEDSDebounce: "false"},
		Present: record.Cell{study.FactorDebounceAfter: "100ms", controlplane.FactorSidecarScope: "none",
			controlplane.FactorIstiodReplicas: "1", controlplane.FactorEDSDebounce: "true"},
	}
	Careful(tuned)
	by := map[string][]record.TunedStep{}
	for _, s := range tuned.Steps {
		if by[s.Lever] = append(by[s.Lever], s); s.Do == "" || s.Back == "" {
			t.Errorf("a step says nothing: %+v", s)
		}
	}
	debounce := by[study.FactorDebounceAfter]
	if len(debounce) != 13 || debounce[0].From != "100ms" || debounce[12].To != "2.5s" {
		t.Fatalf("the debounce has %d steps: %+v", len(debounce), debounce)
	}
	f, _ := controlplane.LeverByName(study.FactorDebounceAfter)
	for i, s := range debounce {
		from, _ := f.Value(s.From)
		to, ok := f.Value(s.To)
		if !ok || to/from > 1.31 || to/from < 1.1 || math.Abs(s.Share-(to/from-1)) > 0.02 {
			t.Errorf("step %d goes from %s to %s, which it calls %.2f", i, s.From, s.To, s.Share)
		}
		if !strings.Contains(s.Back, s.From) || !strings.Contains(s.Do, s.To) {
			t.Errorf("step %d is %+v", i, s)
		}
	}
	if n := len(by[controlplane.FactorIstiodReplicas]); n != 2 {
		t.Errorf("1 to 3 replicas take %d steps", n)
	}
	if n := len(by[controlplane.FactorSidecarScope]); n != 3 {
		t.Errorf("a Sidecar takes %d steps", n)
	}
	if len(by[controlplane.FactorEDSDebounce]) != 1 {
		t.Errorf("what is on or off takes %+v", by[controlplane.FactorEDSDebounce])
	}
	managers := map[string]bool{} // that do not affect each other's fields of the Deployment
	for _, s := range tuned.Settings {
		if _, after, patch := strings.Cut(s.YAML, "--field-manager="); patch {
			managers[strings.Fields(after)[0]] = true
		}
		if s.Lever == controlplane.FactorSidecarHosts {
			t.Error("hosts are a setting of their own")
		}
		if s.Lever == controlplane.FactorSidecarScope &&
			(!strings.Contains(s.YAML, `    - "prometheus/*"`) || strings.Contains(s.YAML, "outboundTrafficPolicy")) {
			t.Errorf("the Sidecar is\n%s", s.YAML)
		}
	}
	if len(managers) != 3 {
		t.Errorf("three levers are set by the managers %v", managers)
	}
	if do := by[controlplane.FactorSidecarScope][0].Do; !strings.Contains(do,
		"`meshtrial assess config --lab cluster --generate DIR`") {
		t.Error(do)
	}
	signals := ""
	for _, w := range tuned.Watch {
		if signals += w.Signal + "\n"; w.Query == "" || w.Back == "" {
			t.Errorf("a signal says nothing: %+v", w)
		}
	}
	for _, want := range []string{"latency", "saturation", "traffic", "errors", "hosts that sidecars no longer know",
		"endpoints that are gone"} {
		if !strings.Contains(signals, want) {
			t.Errorf("nobody watches %s:\n%s", want, signals)
		}
	}
	nothing := &record.Tuning{}
	if Careful(nothing); nothing.Watch != nil || nothing.Steps != nil {
		t.Errorf("nothing is recommended, and there are steps: %+v", nothing)
	}
}

// A number that only istiod knows is read first, and the steps start or end there.
func TestCarefulFromDefault(t *testing.T) {
	tuned := &record.Tuning{
		Recommended: record.Cell{controlplane.FactorPushThrottle: "200", controlplane.FactorRequestLimit: "default",
			controlplane.FactorIstiodCPU: "2"},
		Present: record.Cell{controlplane.FactorPushThrottle: "default", controlplane.FactorRequestLimit: "10",
			controlplane.FactorIstiodCPU: "none"},
	}
	Careful(tuned)
	by := map[string]string{}
	for _, s := range tuned.Steps {
		by[s.Lever] += s.Do + "\n"
	}
	for lever, want := range map[string]string{controlplane.FactorPushThrottle: "which number default stands for",
		controlplane.FactorRequestLimit: "which number default stands for",
		controlplane.FactorIstiodCPU:    "which number none stands for"} {
		if !strings.Contains(by[lever], want) || !strings.Contains(by[lever], "10 to 30% a step") ||
			strings.Contains(by[lever], "no steps in between") {
			t.Errorf("%s:\n%s", lever, by[lever])
		}
	}
}

// Namespaces are selected by the presence or absence of a label.
func TestSelectors(t *testing.T) {
	f, _ := controlplane.LeverByName(controlplane.FactorDiscoverySelectors)
	for level, want := range map[string]string{"team=a": `matchLabels: {"team": "a"}`, "team!=b": `matchExpressions:
    - {key: "team", operator: NotIn, values: ["b"]}`} {
		if got := settingOf(f, level, "", usual).yaml; !strings.Contains(got, want) {
			t.Errorf("%s is\n%s", level, got)
		}
	}
}
