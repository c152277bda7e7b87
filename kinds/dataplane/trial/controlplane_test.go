package trial

import (
	"net/http"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// planeMesh is a mesh whose control plane has the pods of [proxyOn].
type planeMesh struct{ mesh.Mesh }

func (planeMesh) Name() string                               { return "istio" }
func (planeMesh) ControlPlane() (namespace, selector string) { return "mesh", "app=proxy" }

// The use of some replicas of the control plane does not pass for the use of all.
func TestWholeControl(t *testing.T) {
	for node, whole := range map[string]bool{"seen": true, "unseen": false} {
		second := proxyOn(node, true)
		second.Name = "second"
		s := &site.Site{Kube: fakecluster.New(proxyOn("seen", true), second), Observers: map[string]observe.Client{"seen": {HTTPClient: http.DefaultClient}}}
		must.OK(t, must.Err(s.FindControlPlane(t.Context(), planeMesh{})))
		trial := &trialRun{d: &deployed{Site: s}}
		out := &record.Trial{
			CPU:     map[string]record.CPU{record.PartControl: {UserS: 1}, record.PartWorker: {UserS: 1}, record.PartUnattributed: {UserS: 1}},
			Memory:  map[string]record.Memory{record.PartControl: {PSSBytes: 1}, record.PartWorker: {PSSBytes: 1}},
			Waits:   map[string]record.Wait{record.PartControl: {WaitS: 1}},
			Threads: map[string]record.Threads{record.PartControl: {Seconds: 1}},
		}
		trial.wholeControl(out)
		_, cpu := out.CPU[record.PartControl]
		_, memory := out.Memory[record.PartControl]
		if cpu != whole || memory != whole || len(out.Waits) == 1 != whole || len(out.Threads) == 1 != whole || len(out.CPU) < 2 || len(out.Memory) < 1 {
			t.Errorf("second replica %s: %+v", node, out)
		}
		if told := strings.Join(trial.seen.Unmeasured, "\n"); whole != (told == "") || !whole && !strings.Contains(told, "no observer runs beside second on node unseen") {
			t.Errorf("second replica %s: told %q", node, told)
		}
	}
}
