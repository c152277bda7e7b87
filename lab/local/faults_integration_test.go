//go:build integration

package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
)

// victims are programs of a lab that get killed.
var victims = []string{"kube-apiserver", "kubelet", "containerd", "etcd", "pilot-discovery", "envoy",
	"kube-controller-manager", "kube-scheduler", "kube-proxy", "containerd-shim-runc-v2", "pilot-agent", "coredns"}

// pidsOf lists the processes of a lab, by its cgroup, that run a program.
func pidsOf(id, program string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		groups, _ := os.ReadFile(dir + "/cgroup")
		if !strings.Contains(string(groups), "/meshtrial-"+id) {
			continue
		}
		command, _ := os.ReadFile(dir + "/cmdline")
		name, _, _ := strings.Cut(string(command), "\x00")
		if filepath.Base(name) == program {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestKills kills parts of labs at random moments, thirty times. A lab whose
// parts die mends itself; one whose init or whose `lab up` dies is gone at
// once. After each `lab down` nothing is left.
func TestKills(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("MESHTRIAL_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("MESHTRIAL_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t)
	kills := 0
	for round := range 5 {
		l := b.up(t)
		status, err := local.GetStatus("")
		if err != nil {
			t.Fatal(err)
		}
		id := status.ID
		kubectl(t, strings.NewReplacer("PROXY", l.Images().Proxy).Replace(meshedYAML), "apply", "-f", "-")
		kubectl(t, "", "rollout", "status", "deploy/app", "-n", "killed", "--timeout=180s")
		for range 4 {
			victim := victims[random.IntN(len(victims))]
			pids := pidsOf(id, victim)
			for end := time.Now().Add(time.Minute); len(pids) == 0; pids = pidsOf(id, victim) {
				if time.Now().After(end) {
					t.Fatalf("round %d: nothing to kill", round)
				}
				time.Sleep(time.Second) // it is being restarted; another may run
				victim = victims[random.IntN(len(victims))]
			}
			unix.Kill(pids[random.IntN(len(pids))], unix.SIGKILL)
			kills++
			t.Logf("round %d: killed %s", round, victim)
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		}
		mended(t, l)
		// The whole node, at a random moment after one more part of it.
		status, err = local.GetStatus("")
		if err != nil {
			t.Fatal(err)
		}
		unix.Kill(status.InitPID, unix.SIGKILL)
		kills++
		eventually(t, time.Minute, "the status says that the lab is dead", func() error {
			if status, err := local.GetStatus(""); err != nil || status.State != local.StateDead {
				return fmt.Errorf("%+v, %v", status, err)
			}
			return nil
		})
		b.down(t, id)

		// `lab up` itself, while it works.
		cmd := exec.Command(b.Program, "lab", "up")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		moment := time.Duration(random.IntN(8000)) * time.Millisecond
		time.Sleep(moment)
		cmd.Process.Kill()
		cmd.Wait()
		kills++
		id = "none"
		if status, err := local.GetStatus(""); err == nil && status.ID != "" {
			id = status.ID
		}
		t.Logf("round %d: killed lab up after %s, lab %s", round, moment, id)
		b.down(t, id)
	}
	t.Logf("%d kills", kills)
	if kills < 30 {
		t.Errorf("only %d kills", kills)
	}
}

const meshedYAML = `
apiVersion: v1
kind: Namespace
metadata: {name: killed, labels: {istio-injection: enabled}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: killed}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}, annotations: {sidecar.istio.io/proxyCPU: 10m}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: "docker.io/meshtrial/pause:1"}]
`

// mended waits until every part of a lab works again: the node is ready, and
// what ran is available.
func mended(t *testing.T, l *local.Lab) {
	t.Helper()
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	for _, d := range []struct{ namespace, name string }{{"kube-system", "coredns"}, {"istio-system", "istiod"}, {"killed", "app"}} {
		if err := lab.WaitDeployment(ctx, client, d.namespace, d.name); err != nil {
			t.Fatal(err)
		}
	}
	// Deployments stay available for a while without what was killed last.
	var status *local.Status
	eventually(t, time.Minute, "all components run", func() error {
		var err error
		if status, err = local.GetStatus(""); err != nil {
			return err
		}
		var dead []error
		for _, c := range status.Components {
			if c.PID == 0 {
				dead = append(dead, fmt.Errorf("%s does not run: %s", c.Name, c.LastExit))
			}
		}
		return errors.Join(dead...)
	})
	for _, c := range status.Components {
		if c.Restarts > 0 {
			t.Logf("%s was restarted %d times", c.Name, c.Restarts)
		}
	}
	// The mended node starts pods. What was killed last runs again, but may not
	// answer yet.
	eventually(t, 2*time.Minute, "the mended API server takes a restart", func() error {
		out, err := tryKubectl("", "rollout", "restart", "-n", "killed", "deploy/app")
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
		return err
	})
	if out, err := tryKubectl("", "rollout", "status", "-n", "killed", "deploy/app", "--timeout=240s"); err != nil {
		t.Fatalf("a new pod after the kills: %v\n%s", err, out)
	}
}
