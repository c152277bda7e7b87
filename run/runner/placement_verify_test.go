//go:build verify

package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestPlacement verifies that a run starts a lab with the nodes that its study needs,
// that its pods are where the cells request, also according to the API server, and
// that the machine shared by the nodes is counted once. In that lab a scenario's
// locality determines which endpoints proxies use.
func TestPlacement(t *testing.T) {
	m := labtest.New(t)
	b := &bench{program: m.Program, dir: t.TempDir(), env: m.Env()}
	file := b.study(t, "placement", `
settings: {rate: 200, connections: 4}
factors: {placement: [same-node, other-node, other-zone], sidecars: [none, both]}
baseline: {sidecars: none}
blocks: {min: 1, max: 1}
`)
	out := filepath.Join(b.dir, "placed")
	g := b.start(t, out, file, "--out", out, "--set", "window=1s", "--keep-lab")
	seen := watchPlaces(t, m, g.ended)
	code, said := g.end(t)
	measured(t, code, said)
	run := verify(t, out, 1)
	nodes := map[string]bool{}
	for _, trial := range run.Trials {
		level, client, server := trial.Cell[dataplane.FactorPlacement], trial.Nodes[record.PartGenerator], trial.Nodes[record.PartWorker]
		nodes[client.Name], nodes[server.Name] = true, true
		is := dataplane.PlacementOtherZone
		switch {
		case client.Name == server.Name:
			is = dataplane.PlacementSameNode
		case client.Zone == server.Zone:
			is = dataplane.PlacementOtherNode
		}
		if is != level || client.Name == "" || client.Machine == "" || client.Machine != server.Machine {
			t.Errorf("trial %s of %s: client on %+v, server on %+v", trial.ID, level, client, server)
		}
		if got := seen["server-"+dataplane.ServerVariant(trial.Cell).For(trial.Repeat).Name()]; got != server.Name {
			t.Errorf("trial %s: its server was on %q, the record has %q", trial.ID, got, server.Name)
		}
		if got := seen["client-"+dataplane.ClientVariant(trial.Cell).For(trial.Repeat).Name()]; got != client.Name {
			t.Errorf("trial %s: its client was on %q, the record has %q", trial.ID, got, client.Name)
		}
		if !trial.Validity.Valid {
			continue
		}
		machine := trial.CPU[record.PartMachine].TotalS()
		if o := trial.Others; o == nil || o.ClusterS <= 0 || o.ClusterS > machine || o.UnattributedS > machine || o.UnattributedS < -0.2*machine {
			t.Errorf("trial %s: the machine used %.3f s, beside the study %+v", trial.ID, machine, o)
		}
	}
	if len(nodes) != 3 {
		t.Errorf("pods ran on %v", nodes)
	}
	t.Run("locality", func(t *testing.T) { localityHolds(t, m, b) })
}

const localityStudy = `
name: locality
question: Whom do proxies ask?
story: Servers in two zones, and a client in one of them.
mesh: istio
graph: {services: {bar: {replicas: 6, service_time: {mean: 1ms}}}}
load: {to: bar, clients: 1, timeout: 3s}
settings: {rate: 100, arrival: uniform, connections: 4, outlier_detection: "errors=5 interval=1s ejection=3s max=100%"}
factors: {locality: [ignore, prefer]}
baseline: {locality: ignore}
timeline: {duration: 6s}
blocks: {min: 1, max: 1}
stop: none
`

// localityHolds counts which servers answered: only those in the client's zone if
// proxies prefer it, otherwise all.
func localityHolds(t *testing.T, m labtest.Machine, b *bench) {
	l, err := local.Open(m.State())
	must.OK(t, err)
	zones := map[string]string{}
	for _, n := range l.Nodes() {
		zones[n.Name] = n.Zone
	}
	file, out := b.file(t, "locality", localityStudy), filepath.Join(b.dir, "locality")
	code, said := b.meshtrial(t, "run", file, "--out", out)
	run, _, err := store.Load(t.Context(), out)
	if err != nil || len(run.Trials) < 2 {
		t.Fatalf("%d trials, %v, exit code %d\n%s", len(run.Trials), err, code, said)
	}
	for i := range run.Trials {
		trial := &run.Trials[i]
		for _, c := range trial.Validity.Checks {
			if !c.OK && !labtest.OfTheMachine(*trial, c) {
				t.Errorf("trial %s: %s: %s", trial.ID, c.Name, c.Detail)
			}
		}
		home, served := "", answeredBy(t, run, trial.ID)
		for _, pod := range trial.Scenario.Pods {
			if pod.Service != "bar" {
				home = zones[pod.Node]
			}
		}
		near, far := 0, 0
		for _, pod := range trial.Scenario.Pods {
			if pod.Service != "bar" {
				continue
			}
			same := zones[pod.Node] == home
			if same {
				near++
			} else {
				far++
			}
			want := same || trial.Cell[study.FactorLocality] == study.LocalityIgnore
			if (served[pod.Name] > 0) != want {
				t.Errorf("trial %s with locality %s: %s in zone %s answered %d, the client is in %s", trial.ID, trial.Cell[study.FactorLocality], pod.Name, zones[pod.Node], served[pod.Name], home)
			}
		}
		if near == 0 || far == 0 {
			t.Errorf("trial %s: %d servers in the client's zone, %d in others", trial.ID, near, far)
		}
	}
}

// answeredBy counts the requests of a trial that each pod's worker answered.
func answeredBy(t *testing.T, run record.Run, trial string) map[string]int {
	t.Helper()
	r, err := run.Requests(trial)
	must.OK(t, err)
	defer r.Close()
	out := map[string]int{}
	for lines := json.NewDecoder(r); ; {
		var line struct{ Worker struct{ Pod string } }
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if line.Worker.Pod != "" {
			out[line.Worker.Pod]++
		}
	}
}

// watchPlaces records the latest node of each app's pod until a run has ended.
func watchPlaces(t *testing.T, m labtest.Machine, ended <-chan struct{}) map[string]string {
	t.Helper()
	seen := map[string]string{}
	look := func() {
		l, err := local.Open(m.State())
		if err != nil {
			return // not there yet, or no longer
		}
		kube, err := kubernetes.NewForConfig(l.RESTConfig())
		must.OK(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		pods, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: site.RunLabel})
		if err != nil {
			return
		}
		for _, pod := range pods.Items {
			if app := pod.Labels[mesh.AppLabel]; pod.Status.Phase == corev1.PodRunning && (strings.HasPrefix(app, "client-") || strings.HasPrefix(app, "server-")) {
				seen[app] = pod.Spec.NodeName
			}
		}
	}
	for {
		select {
		case <-ended:
			return seen
		case <-time.After(time.Second):
			look()
		}
	}
}
