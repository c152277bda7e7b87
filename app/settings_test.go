package app

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// What is applied by one manager as several documents of one object loses all but the
// last: a recommended setting has a Deployment once, with all that is set of it.
func TestSettingsOfOneObject(t *testing.T) {
	tuned := &record.Tuning{
		Recommended: record.Cell{study.FactorDebounceAfter: "2.5s", study.FactorPushThrottle: "100", study.FactorIstiodReplicas: "2", study.FactorIstiodCPU: "2",
			study.FactorIstiodCPURequest: "1", study.FactorDiscoverySelectors: "team=a", study.FactorExportTo: ".", study.FactorSidecarScope: "mesh"},
		Present: record.Cell{study.FactorDebounceAfter: "100ms", study.FactorPushThrottle: "default", study.FactorIstiodReplicas: "1", study.FactorIstiodCPU: "none",
			study.FactorIstiodCPURequest: "500m", study.FactorDiscoverySelectors: "none", study.FactorExportTo: "*", study.FactorSidecarScope: "none"},
	}
	advice.Careful(tuned)
	text := settingsOf(tuned)
	kinds := map[string]int{}
	var deployment struct {
		Spec struct {
			Replicas int
			Template struct {
				Spec struct {
					Containers []struct {
						Name      string
						Env       []struct{ Name, Value string }
						Resources struct{ Limits, Requests map[string]string }
					}
				}
			}
		}
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			APIVersion, Kind string
			Metadata         struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil || object.APIVersion == "" || object.Metadata.Name == "" {
			t.Fatalf("kubectl refuses %+v (%v):\n%s", object, err, document)
		}
		if kinds[object.Kind]++; object.Kind == "Deployment" {
			if err := yaml.UnmarshalStrict([]byte(document), new(map[string]any)); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(document), &deployment); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kinds["Deployment"] != 1 || kinds["Sidecar"] != 1 || len(kinds) != 2 {
		t.Errorf("the documents are %v:\n%s", kinds, text)
	}
	spec := deployment.Spec
	if len(spec.Template.Spec.Containers) != 1 || spec.Replicas != 2 {
		t.Fatalf("the Deployment is %+v", spec)
	}
	c := spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	if c.Name != "discovery" || env["PILOT_DEBOUNCE_AFTER"] != "2.5s" || env["PILOT_PUSH_THROTTLE"] != "100" || len(env) != 2 || c.Resources.Limits["cpu"] != "2" || c.Resources.Requests["cpu"] != "1" {
		t.Errorf("the container is %+v", c)
	}
	for _, want := range []string{"kubectl apply --server-side --field-manager=tuning -f " + SettingsFile, "# debounce_after: 2.5s, now 100ms\n", "# push_throttle: 100, now default\n",
		"#     discoverySelectors:\n", "#     defaultServiceExportTo:\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "meshConfig:\n"); n != 1 {
		t.Errorf("the mesh configuration is there %d times:\n%s", n, text)
	}
}

// Manifests that are applied one after the other leave each other alone.
func TestSettingsApart(t *testing.T) {
	managers := map[string]bool{}
	tuned := &record.Tuning{Recommended: record.Cell{study.FactorDebounceAfter: "2.5s", study.FactorPushThrottle: "100", study.FactorIstiodCPU: "2"},
		Present: record.Cell{study.FactorDebounceAfter: "100ms", study.FactorPushThrottle: "50", study.FactorIstiodCPU: "1"}}
	advice.Careful(tuned)
	for _, s := range tuned.Settings {
		_, after, _ := strings.Cut(s.YAML, "--field-manager=")
		managers[strings.Fields(after)[0]] = true
	}
	if len(managers) != 3 {
		t.Errorf("three levers are set by the managers %v", managers)
	}
}

// What is no longer recommended takes the place of manifests of earlier: a tuning that
// goes on may refute what it said when it was interrupted.
func TestSettingsRefuted(t *testing.T) {
	tuned := &record.Tuning{Recommended: record.Cell{study.FactorDebounceAfter: "2.5s"}, Present: record.Cell{study.FactorDebounceAfter: "100ms"}}
	advice.Careful(tuned)
	if text := settingsOf(tuned); !strings.Contains(text, "kind: Deployment") || !strings.Contains(text, "No comparison has confirmed") {
		t.Errorf("before the comparison it is\n%s", text)
	}
	tuned.Verdict, tuned.Kept = record.VerdictReal, []record.TunedBound{{Verdict: record.TunedBroken}}
	for _, nothing := range []*record.Tuning{tuned, {}} {
		if text := settingsOf(nothing); text == "" || strings.Contains(text, "kind:") {
			t.Errorf("nothing is recommended, and the manifests are\n%s", text)
		}
	}
	if text := settingsOf(nil); text != "" {
		t.Errorf("a run that tunes nothing has\n%s", text)
	}
}

// A Sidecar for namespaces or workloads that are left to name is for people to complete:
// kubectl would put it into a namespace NAMESPACE.
func TestSettingsLeftToName(t *testing.T) {
	for _, scope := range []string{study.SidecarScopeNamespace, study.SidecarScopeWorkload} {
		tuned := &record.Tuning{Recommended: record.Cell{study.FactorSidecarScope: scope, study.FactorPushThrottle: "100"},
			Present: record.Cell{study.FactorSidecarScope: "none", study.FactorPushThrottle: "default"}}
		advice.Careful(tuned)
		text := settingsOf(tuned)
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.HasPrefix(line, "#") && (strings.Contains(line, "NAMESPACE") || strings.Contains(line, "WORKLOAD") || strings.Contains(line, "Sidecar")) {
				t.Errorf("%s: kubectl reads %q in\n%s", scope, line, text)
			}
		}
		for _, want := range []string{"kind: Deployment", "#   kind: Sidecar\n", "where the report's steps end", "they are left to name"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", scope, want, text)
			}
		}
		if strings.Contains(text, "Apply all of it at once") {
			t.Error("the steps are left out")
		}
	}
}
