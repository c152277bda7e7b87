//go:build verify

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Variables of the environment: the arguments, as JSON, of the program that is
// killed; and that it is killed at each step, not only at one of each kind.
const (
	programArguments = "MESHTRIAL_PROGRAM_ARGUMENTS"
	everyFailpoint   = "MESHTRIAL_EVERY_FAILPOINT"
)

const killedControl = `
name: killed-control
question: Is all reverted?
kind: control-plane
control: {changes: 1, settle: 20s, idle: 0s}
settings: {proxies: 2, services: 2, endpoints: 1, namespaces: 1, change: service, debounce_after: 50ms, export_to: "*"}
factors: {outbound_policy: [REGISTRY_ONLY]}
blocks: {min: 1, max: 1, limit: 20m}
`

const killedScenario = `
name: killed-scenario
question: Is all reverted?
story: Istiod goes away, and somebody's object is changed, while the run may die.
graph: {services: {bar: {replicas: 1}}}
load: {to: bar, clients: 1}
settings: {rate: 20}
timeline:
  duration: 14s
  steps:
  - name: elsewhere
    at: 1s
    for: 3s
    config:
      apply: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: theirs, namespace: killed}
        data: {a: ours, more: x}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: made, namespace: killed}
        data: {a: b}
      delete: [{apiVersion: v1, kind: ConfigMap, name: deleted, namespace: killed}]
  - {name: away, at: 5s, for: 4s, process: {of: istiod, do: kill}}
blocks: {min: 1, max: 1}
stop: none
`

// TestProgramChild is the program, with failpoints.
func TestProgramChild(t *testing.T) {
	text := os.Getenv(programArguments)
	if text == "" {
		t.Skip("TestProgramKilled runs it")
	}
	var args []string
	must.OK(t, json.Unmarshal([]byte(text), &args))
	err := Run(t.Context(), args, &Env{Stdin: strings.NewReader(""), Stdout: os.Stdout, Stderr: os.Stderr})
	if code := errs.Code(err); code != errs.CodeOK && code != errs.CodeInvalid { // figures may be invalid on a busy machine
		t.Fatal(err)
	}
}

// killing is a cluster as somebody else's, in which runs are killed.
type killing struct {
	lab *local.Lab
	dir string
	all *labtest.Objects
}

// TestProgramKilled kills runs of the program in a cluster at the steps at which
// they change what is not theirs, and has `meshtrial cluster restore` revert all:
// afterwards every object outside of the runs' namespaces is as it was.
func TestProgramKilled(t *testing.T) {
	l := labtest.Start(t)
	k := &killing{lab: l, dir: t.TempDir(), all: labtest.NewObjects(t, l, nil)}
	labtest.Namespace(t, l, "killed")
	for _, args := range [][]string{{"create", "namespace", "killed"}, {"-n", "killed", "create", "configmap", "theirs", "--from-literal=a=theirs"}, {"-n", "killed", "create", "configmap", "deleted", "--from-literal=a=b"}} {
		labtest.Kubectl(t, l, "", args...)
	}
	seen := map[string]bool{} // kinds of steps that a run was killed at
	for _, study := range []string{killedControl, killedScenario} {
		name, _, _ := strings.Cut(strings.TrimPrefix(study, "\nname: "), "\n")
		t.Run(name, func(t *testing.T) { k.runs(t, name, study, seen) })
	}
}

// runs kills runs of one study.
func (k *killing) runs(t *testing.T, name, study string, seen map[string]bool) {
	file := labtest.Study(t, study)
	before := k.all.Now(t)
	steps, killed, said := k.run(t, name, file, 0)
	if killed || len(steps) < 10 {
		t.Fatalf("%d steps:\n%s", len(steps), said)
	}
	if k.all.Same(t, "a run that nobody killed", before); t.Failed() {
		return
	}
	count := 0
	for i, step := range steps {
		_, what, _ := strings.Cut(step, " ")
		if seen[stepKind(what)] && os.Getenv(everyFailpoint) == "" {
			continue
		}
		seen[stepKind(what)] = true
		began := time.Now()
		_, killed, said := k.run(t, name, file, i+1)
		if !killed {
			t.Logf("no run was killed at %s: it had fewer steps", step)
			continue
		}
		count++
		out, log, err := runIn(t.Context(), "cluster", "restore", "--kubeconfig", k.lab.Kubeconfig())
		if err != nil {
			t.Errorf("killed at %s: restore: %v\n%s%s", step, err, out, log)
		}
		k.all.Same(t, "killed at "+step, before)
		if t.Failed() {
			t.Fatalf("the run said:\n%s\nrestore said:\n%s%s", said, out, log)
		}
		t.Logf("killed at %s: all is as it was, after %.0f s", step, time.Since(began).Seconds())
	}
	t.Logf("killed at %d of %d steps: 0 differences among %d objects", count, len(steps), len(before))
}

// stepKind is what a step does, and, where it changes an object, to which kind of
// object.
func stepKind(what string) string {
	if object, changed := strings.CutPrefix(what, "changed "); changed {
		kind, _, _ := strings.Cut(object, " ")
		return "changed " + kind
	}
	for _, step := range []string{"to be noted", "noted", "applied", "made", "removed", "to be reverted", "reverted", "entry gone"} {
		if strings.HasPrefix(what, step+" ") {
			return step
		}
	}
	return what
}

// run runs the study, which dies at its n-th step; 0: not at all. It returns the
// steps that it came to.
func (k *killing) run(t *testing.T, name, file string, n int) (steps []string, killed bool, said string) {
	t.Helper()
	args, err := json.Marshal([]string{"run", file, "--yes", "--mesh-wide", "--lab", "cluster", "--kubeconfig", k.lab.Kubeconfig(), "--image", k.lab.Images().Meshtrial,
		"--out", filepath.Join(k.dir, fmt.Sprintf("%s-%d", name, n)), "--limit", "unattributed=100%"})
	must.OK(t, err)
	return labtest.DiesAt(t.Context(), t, n, "TestProgramChild", programArguments+"="+string(args))
}
