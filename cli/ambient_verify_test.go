//go:build verify

package cli_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

const ambientStudy = `
name: ambient
question: What do ztunnel and a waypoint cost beside sidecars?
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, both, ambient, waypoint]}
measures: [latency, cpu, memory, threads]
warmup: {min: 1s, max: 3s}
window: 2s
interval: 1s
blocks: {min: 2, max: 2, limit: 20m}
`

// ofTheMachine lists the prefixes of the checks that fail when others use the machine too.
var ofTheMachine = []string{"unattributed", "steady", "schedule", "send-time", "generator-cpu", "cpu-edges", "threads-"}

// A lab with an ambient mesh sends requests through ztunnel alone and through ztunnel with a
// waypoint, next to pods without a mesh and pods with sidecars. Requests are accounted for to the
// byte; ztunnel's CPU, memory and threads are measured, and its usage without requests
// separately. A lab without an ambient mesh rejects the study before it starts. Nothing is left
// when the lab is killed.
func TestAmbient(t *testing.T) {
	m, dir := ambientLab(t)
	m.Up(t)
	file := ambientFile(t, ambientStudy)
	if code, said := m.Run(t, "run", file, "--out", filepath.Join(t.TempDir(), "run")); code != 2 || !strings.Contains(said, "no ambient mesh in namespace") {
		t.Fatalf("without an ambient mesh: exit code %d\n%s", code, said)
	}
	m.Succeeds(t, "lab", "down")
	leaks := withRules(t)
	clean, err := leakcheck.Take(leaks)
	must.OK(t, err)
	l := m.Up(t, "--ztunnel", dir)
	if _, said := m.Run(t, "lab", "status"); !strings.Contains(said, l.Images().Meshes["istio"]["ztunnel"]) {
		t.Errorf("lab status says nothing of ztunnel:\n%s", said)
	}
	run := ambientRun(t, m, file)
	ways := map[string][]string{study.SidecarsAmbient: {record.PartNode}, study.SidecarsWaypoint: {record.PartNode, record.PartWaypoint}}
	carried := map[string]int{}
	for _, trial := range run.Trials {
		accounted(t, trial)
		addedUp(t, trial)
		ambient := study.Ambient(trial.Cell)
		if _, idle := trial.CPU[record.PartIdleNode]; ambient == (trial.IdleNodes == 1) || ambient == idle {
			t.Errorf("trial %s of %s: %d idle ztunnels, %+v", trial.ID, trial.Cell[study.FactorSidecars], trial.IdleNodes, trial.CPU)
		}
		if !ambient {
			continue
		}
		level := trial.Cell[study.FactorSidecars]
		carried[level]++
		if !slices.Equal(trial.Way.Parts(), ways[level]) {
			t.Errorf("trial %s of %s went %v", trial.ID, level, trial.Way)
		}
		waypoint := record.PartWaypoint
		if level == study.SidecarsWaypoint && (trial.CPU[waypoint].TotalS() <= 0 || trial.Memory[waypoint].PSSBytes < 1<<20 || len(trial.Threads[waypoint].Threads) == 0 || len(trial.Counters[waypoint]) == 0 || trial.Connections[waypoint].Established == 0) {
			t.Errorf("trial %s: the waypoint used %+v, %+v, has %d threads, %+v, counted %v", trial.ID, trial.CPU[waypoint], trial.Memory[waypoint], len(trial.Threads[waypoint].Threads), trial.Connections[waypoint], trial.Counters[waypoint])
		}
		part := record.PartNode
		if trial.CPU[part].TotalS() <= 0 || trial.Memory[part].PSSBytes < 1<<20 || len(trial.Threads[part].Threads) == 0 || len(trial.Counters[part]) == 0 || trial.Connections[part].Opened != 4 {
			t.Errorf("trial %s: ztunnel used %+v, %+v, has %d threads, carried %+v, counted %v", trial.ID, trial.CPU[part], trial.Memory[part], len(trial.Threads[part].Threads), trial.Connections[part], trial.Counters[part])
		}
	}
	if carried[study.SidecarsAmbient] != 2 || carried[study.SidecarsWaypoint] != 2 {
		t.Fatalf("trials through ztunnel are %v", carried)
	}
	if !slices.ContainsFunc(run.Header.Components, func(c record.Component) bool {
		return c.Name == "ztunnel" && c.Source == l.Images().Meshes["istio"]["ztunnel"]
	}) {
		t.Errorf("the run does not name the ztunnel that it measured: %+v", run.Header.Components)
	}
	found(t, run, func(c record.Cell) bool { return !study.Ambient(c) }, dataplane.FindingIdleNode)
	found(t, run, study.Ambient, "cpu_"+record.PartNode+"_per_request", "memory_"+record.PartNode, dataplane.FindingNodesNet, "memory_"+record.PartNodeAgent,
		"cpu_"+record.PartWaypoint+"_per_request", "memory_"+record.PartWaypoint)
	status, err := local.GetStatus("")
	must.OK(t, err)
	eventually.Holds(t, "the run is over, and the node's sets have none of its pods", func() bool { return len(probed(t, status.InitPID)) == 0 })
	captured(t, l, status)
	inZtunnel(t, l)
	killed(t, m, l, status, clean, leaks)
}

// On three nodes, requests between two nodes pass a ztunnel on each, over HBONE, and requests
// within one node pass its ztunnel twice. The ztunnel of the third node carries nothing. Nothing
// is left of the nodes when they are killed.
func TestAmbientNodes(t *testing.T) {
	m, dir := ambientLab(t)
	leaks := withRules(t)
	clean, err := leakcheck.Take(leaks)
	must.OK(t, err)
	l := m.Up(t, "--ztunnel", dir, "--nodes", "3")
	file := ambientFile(t, strings.NewReplacer("[none, both, ambient, waypoint]", "[none, ambient], placement: [same-node, other-node]").Replace(ambientStudy))
	run := ambientRun(t, m, file)
	ways := map[string]int{}
	for _, trial := range run.Trials {
		accounted(t, trial)
		way, idle := "", 3
		if study.Ambient(trial.Cell) {
			if way, idle = record.PartNode, 2; trial.Cell[dataplane.FactorPlacement] == dataplane.PlacementOtherNode {
				way, idle = record.PartClientNode+" "+record.PartServerNode, 1
			}
		}
		if got := strings.Join(trial.Way.Parts(), " "); got != way || trial.IdleNodes != idle {
			t.Errorf("trial %s of %s, %s: went %q beside %d ztunnels, not %q beside %d", trial.ID, trial.Cell[study.FactorSidecars], trial.Cell[dataplane.FactorPlacement], got, trial.IdleNodes, way, idle)
		}
		ways[way]++
		for _, part := range trial.Way.Parts() {
			if trial.CPU[part].TotalS() <= 0 || trial.Memory[part].PSSBytes < 1<<20 || len(trial.Threads[part].Threads) == 0 {
				t.Errorf("trial %s: %s used %+v, %+v", trial.ID, part, trial.CPU[part], trial.Memory[part])
			}
		}
	}
	if len(ways) != 3 {
		t.Errorf("requests went %v", ways)
	}
	found(t, run, study.Ambient, "cpu_"+record.PartClientNode+"_per_request", "cpu_"+record.PartServerNode+"_per_request", dataplane.FindingNodesNet)
	status, err := local.GetStatus("")
	must.OK(t, err)
	// The pods of a drained node move to the others, and the node accepts pods again afterwards.
	faultRun(t, m, "node-drained", []int{0, 4}, "timeline.duration=20s", "expect={}")
	if closed := labtest.Kubectl(t, l, "", "get", "nodes", "-o", "jsonpath={.items[*].spec.unschedulable}"); strings.TrimSpace(closed) != "" {
		t.Errorf("nodes take no pods after a step has drained one: %s", closed)
	}
	// A node that died comes back with its agent and its ztunnel, and nothing else.
	for _, do := range []string{"kill", "start"} {
		m.Succeeds(t, "lab", "node", do, "lab-2")
	}
	for _, set := range []string{"istio-cni-node", "ztunnel"} {
		labtest.Kubectl(t, l, "", "-n", "istio-system", "rollout", "status", "daemonset", set, "--timeout=120s")
	}
	killed(t, m, l, status, clean, leaks)
}

// ambientLab returns a lab without an ambient mesh, and the folder that contains ztunnel.
func ambientLab(t *testing.T) (m labtest.Machine, dir string) {
	dir = os.Getenv("MESHTRIAL_ZTUNNEL")
	if dir == "" {
		t.Skip("MESHTRIAL_ZTUNNEL names no folder with ztunnel")
	}
	return labtest.New(t), dir
}

func ambientFile(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "ambient.yaml")
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func ambientRun(t *testing.T, m labtest.Machine, file string) record.Run {
	out := filepath.Join(t.TempDir(), "run")
	if code, said := m.Run(t, "run", file, "--out", out, "--limit", "unattributed=100%"); code != 0 && code != 4 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	return run
}

// accounted checks that a trial fails only checks that a busy machine fails, that the checks that
// account for its requests are present, and that the node agent is a part.
func accounted(t *testing.T, trial record.Trial) {
	var names []string
	for _, c := range trial.Validity.Checks {
		names = append(names, c.Name)
		if !c.OK && !ofBusyMachine(c) {
			t.Errorf("trial %s of %v: %s: %s", trial.ID, trial.Cell, c.Name, c.Detail)
		}
	}
	want := []string{"ztunnel-beside"}
	switch {
	case study.Waypoint(trial.Cell):
		want = []string{"worker-requests", "waypoint-present", "waypoint-requests", "client-ztunnel", "client-hbone", "client-ztunnel-bytes", "client-ztunnel-answers",
			"client-ztunnel-failed", "client-ztunnel-open", "server-hbone", "server-ztunnel-bytes"}
	case study.Ambient(trial.Cell):
		want = []string{"ztunnel-sides", "ztunnel-sides-answers", "worker-connections", "worker-requests"}
		for _, side := range []string{"client", "server"} {
			want = append(want, side+"-ztunnel", side+"-hbone", side+"-ztunnel-bytes", side+"-ztunnel-answers", side+"-ztunnel-failed", side+"-ztunnel-open")
		}
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("trial %s of %v has no check %s, but %q", trial.ID, trial.Cell, name, names)
		}
	}
	if trial.Memory[record.PartNodeAgent].PSSBytes < 1<<20 || trial.NodeAgents == 0 || trial.AgentForSidecars {
		t.Errorf("trial %s: %d node agents have %+v, for sidecars %v", trial.ID, trial.NodeAgents, trial.Memory[record.PartNodeAgent], trial.AgentForSidecars)
	}
}

// programs lists the programs in the containers of shared proxies.
var programs = map[string][]string{record.PartNode: {"ztunnel"}, record.PartIdleNode: {"ztunnel"}, record.PartWaypoint: {"pilot-agent", "envoy"}}

// addedUp checks the CPU time of shared proxies by the clocks of their threads: the threads
// belong to the proxy, and they used the time that the trial counts, which comes from the
// container's cgroup. The sum of the parts and the cluster does not exceed the machine's time, so
// nothing was counted twice. The remainder is the work of others, on which a test that shares the
// machine cannot set a limit (see TestShippedAmbient).
func addedUp(t *testing.T, trial record.Trial) {
	t.Helper()
	for part, of := range programs {
		threads, ok := trial.Threads[part]
		if !ok {
			continue
		}
		for _, one := range threads.Threads {
			if !slices.Contains(of, one.Process) {
				t.Errorf("trial %s: %s has a thread of %s", trial.ID, part, one.Process)
			}
		}
		if slack := 0.01 + threads.UnsureS + 0.2*threads.CPUS; threads.Missing != "" || math.Abs(threads.UnaccountedS) > slack {
			t.Errorf("trial %s: the threads of %s have %.3f s less than its group's %.3f s: %s", trial.ID, part, threads.UnaccountedS, threads.CPUS, threads.Missing)
		}
		if counted, share := trial.CPU[part].TotalS(), threads.CPUS*trial.Window.Seconds/threads.Seconds; math.Abs(counted-share) > 0.02+0.2*share {
			t.Errorf("trial %s: %s is said to have used %.3f s, and its threads %.3f s in as long", trial.ID, part, counted, share)
		}
	}
	switch o := trial.Others; {
	case o == nil:
		t.Errorf("trial %s: nobody says what others used", trial.ID)
	case o.UnattributedRatio < -0.1:
		t.Errorf("trial %s: parts and cluster have %.2f s more than the machine", trial.ID, -o.UnattributedS)
	default:
		t.Logf("trial %s of %s: others used %.1f%% of the machine", trial.ID, trial.Cell[study.FactorSidecars], 100*o.UnattributedRatio)
	}
}

// found checks that a run has findings with figures for the cells that of selects, including
// trials that a busy machine may have spoiled.
func found(t *testing.T, run record.Run, of func(record.Cell) bool, names ...string) {
	t.Helper()
	for i := range run.Trials {
		v := &run.Trials[i].Validity
		v.Valid = !slices.ContainsFunc(v.Checks, func(c record.Check) bool {
			return !c.OK && !ofBusyMachine(c) && !labtest.OfTheMachine(run.Trials[i], c)
		})
	}
	f := analysed(t, run)
	for _, name := range names {
		if !slices.ContainsFunc(f.Findings, func(x record.Finding) bool {
			return x.Name == name && of(x.Cell) && x.Verdict != record.VerdictInvalid
		}) {
			t.Errorf("no finding %s that is valid", name)
		}
	}
}

// ofBusyMachine reports whether a check fails because others use the machine too.
func ofBusyMachine(c record.Check) bool {
	return slices.ContainsFunc(ofTheMachine, func(begin string) bool { return strings.HasPrefix(c.Name, begin) })
}

// inMesh is an idle pod that its namespace places in the ambient mesh.
const inMesh = `
apiVersion: v1
kind: Namespace
metadata: {name: captured, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: v1
kind: Pod
metadata: {name: captured, namespace: captured}
spec:
  terminationGracePeriodSeconds: 0
  nodeName: NODE
  containers: [{name: pause, image: "docker.io/meshtrial/pause:1"}]
`

// killed kills the first process of a lab with a pod in the mesh. It checks that everything is
// gone, including what the node agent created in the network namespaces of the node and the pod.
func killed(t *testing.T, m labtest.Machine, l *local.Lab, status *local.Status, clean *leakcheck.Snapshot, leaks leakcheck.Options) {
	captured(t, l, status)
	must.OK(t, unix.Kill(status.InitPID, unix.SIGKILL))
	m.Succeeds(t, "lab", "down")
	leaks.Only = []string{"meshtrial-" + status.ID, "mtrial-" + status.ID, m.State()}
	leakcheck.Check(t, clean, leaks, 20*time.Second)
}

// captured creates a pod in the mesh.
func captured(t *testing.T, l *local.Lab, status *local.Status) {
	node := l.Nodes()[0].Name
	labtest.Kubectl(t, l, strings.ReplaceAll(inMesh, "NODE", node), "apply", "-f", "-")
	first := status.InitPID
	if len(l.Nodes()) > 1 {
		first = labtest.PIDs(status.ID+"/"+node, "exe")[0]
	}
	eventually.Holds(t, "the node's sets have the pod in the mesh", func() bool { return len(probed(t, first)) == 1 })
}

// probed returns the addresses in the node agent's IP sets in the network namespace of a process:
// those of the pods in the mesh.
func probed(t *testing.T, pid int) []string {
	var addresses []string
	err := thread.Apart(func() error {
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil {
			return err
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		sets, err := netlink.IpsetListAll()
		for _, set := range sets {
			for _, entry := range set.Entries {
				addresses = append(addresses, set.SetName+" "+entry.IP.String())
			}
		}
		return err
	})
	must.OK(t, err)
	return addresses
}

// A service graph in an ambient mesh is compared with the same graph with sidecars and without a
// mesh. ztunnel's counters prove that it carried the requests to each service, and a waypoint's
// counters that they passed through it.
func TestAmbientGraph(t *testing.T) {
	dir := os.Getenv("MESHTRIAL_ZTUNNEL")
	if dir == "" {
		t.Skip("MESHTRIAL_ZTUNNEL names no folder with ztunnel")
	}
	m := labtest.New(t)
	out := filepath.Join(t.TempDir(), "run")
	m.Up(t, "--ztunnel", dir)
	if code, said := m.Run(t, "run", "mesh-comparison", "--out", out, "--set", "mesh=[none,istio]", "--set", "sidecars=[both,ambient,waypoint]", "--set", "rate=60", "--set", "timeline.duration=5s", "--set", "blocks.min=2", "--set", "blocks.max=2"); code != 0 && code != 4 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	carried := 0
	for _, trial := range run.Trials {
		if !study.Ambient(trial.Cell) {
			continue
		}
		proved := map[string]bool{}
		for _, c := range trial.Validity.Checks {
			if strings.Contains(c.Name, "ztunnel") || strings.Contains(c.Name, "hbone") || strings.Contains(c.Name, "waypoint") || c.Name == "carried" {
				if proved[c.Name] = true; !c.OK {
					t.Errorf("trial %s: %s: %s", trial.ID, c.Name, c.Detail)
				}
			}
		}
		for _, service := range []string{"client", "server"} {
			for _, side := range []string{"client", "server"} {
				if side == "server" && study.Waypoint(trial.Cell) {
					continue // the connections there are from the waypoint
				}
				for _, of := range []string{"ztunnel", "hbone", "ztunnel-failed", "ztunnel-bytes"} {
					if name := service + "-" + side + "-" + of; !proved[name] {
						t.Errorf("trial %s has no check %s", trial.ID, name)
					}
				}
			}
		}
		carried++
		counted := slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool { return c.Name == "counted" && (c.OK || labtest.OfTheMachine(trial, c)) })
		if s := trial.Scenario; !counted || s.NodeProxies != 1 || s.CPU[record.PartNode].TotalS() <= 0 || s.Memory[record.PartNode] < 1<<20 {
			t.Errorf("trial %s: in %g s %d ztunnels used %+v and have %d bytes", trial.ID, s.CountedS, s.NodeProxies, s.CPU[record.PartNode], s.Memory[record.PartNode])
		}
		if bytes := trial.Scenario.Memory[record.PartNodeAgent]; trial.NodeAgents != 1 || trial.AgentForSidecars || bytes < 1<<20 {
			t.Errorf("trial %s: %d node agents, for sidecars %v, have %d bytes", trial.ID, trial.NodeAgents, trial.AgentForSidecars, bytes)
		}
		if s := trial.Scenario; study.Waypoint(trial.Cell) != (s.CPU[record.PartWaypoint].TotalS() > 0 && s.Memory[record.PartWaypoint] > 1<<20) {
			t.Errorf("trial %s of %s: the waypoint used %+v and has %d bytes", trial.ID, trial.Cell.Key(), s.CPU[record.PartWaypoint], s.Memory[record.PartWaypoint])
		}
	}
	if carried != 4 {
		t.Errorf("%d trials through ztunnel", carried)
	}
	found(t, run, study.Ambient, "cpu_"+record.PartNode, "memory_"+record.PartNode, "memory_"+record.PartNodeAgent, resilience.FindingProxyRequest)
	found(t, run, study.Waypoint, "cpu_"+record.PartWaypoint, "memory_"+record.PartWaypoint)
}
