//go:build verify

package pipelines

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Sharing(m).Run()) }

// resultsVolume is a claim for results, on a folder of the node.
const resultsVolume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: results}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  hostPath: {path: %q, type: Directory}
  claimRef: {namespace: lab, name: results}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: results, namespace: lab}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  volumeName: results
  resources: {requests: {storage: 1Gi}}
`

const scheduledStudy = `
name: scheduled
question: Does a release of the chart start runs?
settings: {rate: 100, connections: 2}
factors: {sidecars: [none, both]}
warmup: {min: 1s, max: 3s}
window: 1s
interval: 500ms
blocks: {min: 2, max: 2, limit: 20m}
`

// TestChartInLab installs a release as docs/pipelines.md says, with the rights that
// cluster check prints, and triggers its schedule: the pod starts a detached run with no
// rights but these, and the run completes.
func TestChartInLab(t *testing.T) {
	m, l := labtest.Shared(t)
	results, err := l.ResultsDir()
	must.OK(t, err)
	labtest.Kubectl(t, l, "", "create", "namespace", "lab")
	t.Cleanup(func() { labtest.Kubectl(t, l, "", "delete", "namespace", "lab", "--wait=false") })
	labtest.Kubectl(t, l, fmt.Sprintf(resultsVolume, results), "apply", "-f", "-")
	t.Cleanup(func() { labtest.Kubectl(t, l, "", "delete", "pv", "results", "--wait=false") })

	check := m.Command(t, "cluster", "check", labtest.Study(t, scheduledStudy), "--feature", "detached", "--feature", "detached runs",
		"--namespace", "lab", "--manifests", "--serviceaccount", "lab/meshtrial", "--kubeconfig", l.Kubeconfig())
	granted, err := check.Output()
	must.OK(t, err)
	objects, err := render(t, map[string]any{"image": l.Images().Meshtrial, "claim": "results", "rights": string(granted), "studyFile": scheduledStudy,
		"schedule": "0 0 1 1 *", "flags": []string{"--mesh-wide"}})
	must.OK(t, err)
	var release strings.Builder
	for _, o := range objects {
		text, err := json.Marshal(o)
		must.OK(t, err)
		fmt.Fprintf(&release, "%s\n", text)
	}
	labtest.Kubectl(t, l, release.String(), "apply", "-f", "-")
	t.Cleanup(func() { labtest.Kubectl(t, l, release.String(), "delete", "--ignore-not-found", "-f", "-") })
	labtest.Kubectl(t, l, "", "-n", "lab", "create", "job", "now", "--from=cronjob/nightly")

	runs := func() []detached.Run {
		out, err := m.Command(t, "runs", "list", "--json").Output()
		must.OK(t, err)
		var list struct{ Runs []detached.Run }
		must.OK(t, json.Unmarshal(out, &list))
		return list.Runs
	}
	t.Cleanup(func() {
		for _, r := range runs() {
			m.Run(t, "runs", "delete", r.Name, "--force")
		}
	})
	eventually.Succeeds(t, 3*time.Minute, "the Job starts a run", func() error {
		if ready := labtest.Kubectl(t, l, "", "-n", "lab", "get", "job", "now", "-o", "jsonpath={.status.succeeded}"); ready == "1" {
			return nil
		}
		return fmt.Errorf("its pod says\n%s", labtest.Kubectl(t, l, "", "-n", "lab", "logs", "job/now", "--tail=20"))
	})
	eventually.Within(t, 10*time.Minute, "the run ends", func() bool {
		all := runs()
		return len(all) == 1 && all[0].State == detached.Completed
	})
	run := runs()[0]
	if code := run.Exit; run.Trials < 4 || code == nil || (*code != errs.CodeOK && *code != errs.CodeInvalid) { // figures may be invalid on a busy machine
		t.Errorf("the run is %+v", run)
	}
}
