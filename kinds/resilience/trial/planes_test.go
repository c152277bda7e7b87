package trial

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// Comparisons of several proxies add up, but not what only the first control plane sends with what
// only the second does.
func TestSumCompared(t *testing.T) {
	var out record.PlaneConfigs
	sumCompared(&out, []scope.Compared{
		{Resources: 10, Differing: 2, Differences: []scope.Difference{{Type: "cds", First: "present", Resources: 1, Example: "a"}, {Type: "cds", Path: "lb_policy", First: "1", Second: "2", Resources: 1, Example: "b"}}},
		{Resources: 20, Differing: 3, Differences: []scope.Difference{{Type: "cds", Second: "present", Resources: 1, Example: "c"}, {Type: "cds", Path: "lb_policy", First: "1", Second: "3", Resources: 2, Example: "d"}}},
	})
	want := []record.ConfigDifference{{Type: "cds", Path: "lb_policy", First: "1", Second: "2", Resources: 3, Example: "b"},
		{Type: "cds", First: "present", Resources: 1, Example: "a"}, {Type: "cds", Second: "present", Resources: 1, Example: "c"}}
	if out.Resources != 30 || out.Differing != 5 || !slices.Equal(out.Differences, want) {
		t.Errorf("%+v", out)
	}
}

// Names of recordings are accepted by run directories, however long those of pods and revisions are.
func TestRecordingName(t *testing.T) {
	for pod, revision := range map[string]string{"bar-5d9f8-abcde": "default", strings.Repeat("a", 63): strings.Repeat("b", 56)} {
		if name := "12-" + recordingName(pod, revision); len(name) > 64 || !strings.HasSuffix(name, ".xds.gz") {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
}

// The use of control planes is unknown if one of their nodes cannot be read.
func TestPlaneUseOfUnobservedNode(t *testing.T) {
	trial := &scenarioTrial{stage: &stage{Site: &site.Site{Control: []site.Pod{{Name: "istiod-a", UID: "a", Node: "away"}}}}}
	if use, err := trial.planeUse(t.Context(), false); !errors.Is(err, site.ErrUnobserved) || use != nil {
		t.Errorf("%v, %v", use, err)
	}
}

// The use of a control plane is that of all its pods, or unknown.
func TestAddUse(t *testing.T) {
	sample := func(seconds, inode uint64, memory int64) observe.Sample {
		return observe.Sample{CPU: observe.CPUSample{TotalNS: seconds * 1e9, UserNS: seconds * 1e9, Inode: inode}, Memory: &observe.MemorySample{PSSBytes: memory}}
	}
	two := []site.Pod{{Name: "istiod-a", UID: "a"}, {Name: "istiod-b", UID: "b"}}
	first := map[string]observe.Sample{"a": sample(10, 1, 0), "b": sample(20, 2, 0)}
	for name, tt := range map[string]struct {
		pods   []site.Pod
		last   map[string]observe.Sample
		says   string // part of the error; "" for none
		memory int64
	}{
		"both":              {two, map[string]observe.Sample{"a": sample(11, 1, 50), "b": sample(22, 2, 70)}, "", 120},
		"one ended":         {two, map[string]observe.Sample{"a": sample(11, 1, 50)}, "pod istiod-b", 0},
		"one restarted":     {two, map[string]observe.Sample{"a": sample(11, 1, 50), "b": sample(22, 3, 70)}, "pod istiod-b", 0},
		"one came":          {append(slices.Clone(two), site.Pod{Name: "istiod-c", UID: "c"}), map[string]observe.Sample{"a": sample(11, 1, 50), "b": sample(22, 2, 70), "c": sample(1, 3, 9)}, "pod istiod-c", 0},
		"memory of one":     {two, map[string]observe.Sample{"a": sample(11, 1, 50), "b": {CPU: sample(22, 2, 0).CPU}}, "", 0},
		"none can be found": {nil, nil, "revision canary has no pod", 0},
	} {
		t.Run(name, func(t *testing.T) {
			plane := record.ScenarioPlane{Revision: "canary"}
			err := addUse(&plane, tt.pods, first, tt.last)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v", err)
			}
			if err == nil && (plane.CPU.TotalS() != 3 || plane.MemoryBytes != tt.memory) {
				t.Errorf("%+v", plane)
			}
		})
	}
}
