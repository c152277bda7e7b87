//go:build integration || verify

package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// victims are programs of a lab to kill.
var victims = []string{"kube-apiserver", "kubelet", "containerd", "etcd", "pilot-discovery", "envoy",
	"kube-controller-manager", "kube-scheduler", "kube-proxy", "containerd-shim-runc-v2", "pilot-agent", "coredns"}

// chance returns the test's source of random numbers.
func chance(t *testing.T) *rand.Rand { return rand.New(rand.NewPCG(labtest.Seed(t), 1)) }

// killParts kills four parts of a lab at random moments, and waits until it has
// recovered.
func killParts(t *testing.T, l *local.Lab, random *rand.Rand) {
	t.Helper()
	status, err := local.GetStatus("")
	must.OK(t, err)
	kubectl(t, strings.NewReplacer("PROXY", l.Images().Meshes["istio"]["proxy"]).Replace(meshedYAML), "apply", "-f", "-")
	kubectl(t, "", "rollout", "status", "deploy/app", "-n", "killed", "--timeout=180s")
	for range 4 {
		victim := victims[random.IntN(len(victims))]
		pids := labtest.PIDs(status.ID, victim)
		for end := time.Now().Add(time.Minute); len(pids) == 0; pids = labtest.PIDs(status.ID, victim) {
			if time.Now().After(end) {
				t.Fatal("nothing to kill")
			}
			time.Sleep(time.Second) // it is restarting; another may be running
			victim = victims[random.IntN(len(victims))]
		}
		must.OK(t, unix.Kill(pids[random.IntN(len(pids))], unix.SIGKILL))
		t.Logf("killed %s", victim)
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	mended(t, l)
}

// killNode kills the whole node.
func killNode(t *testing.T) {
	t.Helper()
	status, err := local.GetStatus("")
	must.OK(t, err)
	must.OK(t, unix.Kill(status.InitPID, unix.SIGKILL))
	eventually.Succeeds(t, time.Minute, "the status says that the lab is dead", func() error {
		if status, err := local.GetStatus(""); err != nil || status.State != local.StateDead {
			return fmt.Errorf("%+v, %v", status, err)
		}
		return nil
	})
}

// killStart kills a `lab up` at a random moment, takes down what exists, and checks that
// no lab but those of others has left anything on the host.
func (b *bench) killStart(t *testing.T, random *rand.Rand, args ...string) {
	t.Helper()
	cmd := b.Command(t, append([]string{"lab", "up"}, args...)...)
	must.OK(t, cmd.Start())
	moment := time.Duration(random.IntN(8000)) * time.Millisecond
	time.Sleep(moment)
	must.OK(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	t.Logf("killed lab up after %s", moment)
	b.down(t)
	leakcheck.Check(t, b.before, leakcheck.Options{Only: []string{"meshtrial-", "mtrial-"}, But: othersLabs()}, 2*time.Minute)
}

var labName = regexp.MustCompile(`/meshtrial(-[0-9a-f]{6})`)

// othersLabs returns a function that returns name suffixes of the labs whose inits it
// has seen running, here those of other tests: a lab that has been taken down no longer
// has one.
func othersLabs() func() []string {
	var seen []string
	return func() []string {
		seen = append(seen, runningLabs()...)
		slices.Sort(seen)
		seen = slices.Compact(seen)
		return seen
	}
}

func runningLabs() (names []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, _ := os.ReadFile(path) // a process may end at any time
		if args := bytes.Split(line, []byte{0}); len(args) < 2 || string(args[1]) != "lab-init" {
			continue
		}
		groups, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cgroup"))
		for _, found := range labName.FindAllSubmatch(groups, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
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

// mended waits until every part of a lab works again: the node is ready, and what was
// running is available.
func mended(t *testing.T, l *local.Lab) {
	t.Helper()
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	// Components that wait for another one to return are restarted less and less often.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for _, d := range []struct{ namespace, name string }{{"kube-system", "coredns"}, {"istio-system", "istiod"}, {"killed", "app"}} {
		must.OK(t, lab.WaitDeployment(ctx, client, d.namespace, d.name))
	}
	// Deployments remain available for a while without what was killed last.
	var status *local.Status
	eventually.Succeeds(t, time.Minute, "all components run", func() error {
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
	// The recovered node starts pods. What was killed last is running again, but may not
	// answer yet.
	eventually.Succeeds(t, 2*time.Minute, "the mended API server takes a restart", func() error {
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
