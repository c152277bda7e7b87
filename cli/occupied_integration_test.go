//go:build integration

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestOneAtATime: a command that writes to a cluster takes its Lease, as a run does. While
// another holder has the Lease, the command names the holder and changes nothing; with --wait it
// waits.
func TestOneAtATime(t *testing.T) {
	l := labtest.Start(t)
	labtest.Namespace(t, l, "one-at-a-time")
	labtest.Kubectl(t, l, "", "create", "namespace", "one-at-a-time")
	test := []string{"controlplane-test", "--reps", "1", "--delay", "0", "--settle", "0s", "--namespace", "one-at-a-time"}
	istiod := strings.TrimSpace(labtest.Kubectl(t, l, "", "-n", "istio-system", "get", "pods", "-l", "app=istiod", "-o", "jsonpath={.items[0].metadata.name}"))
	state := func() string {
		return labtest.Kubectl(t, l, "", "get", "services,deployments,namespaces,daemonsets", "-A", "-o", "name")
	}

	applier, err := lab.NewApplier(l.RESTConfig())
	must.OK(t, err)
	j, err := journal.Enter(t.Context(), journal.Options{Config: l.RESTConfig(), Open: applier, Wait: 20 * time.Minute, Keep: true,
		Holder: journal.Holder{Run: "other-run", Study: "other-study", Since: time.Now()}})
	must.OK(t, err)
	before := state()
	for _, args := range [][]string{
		test,
		{"profile", istiod, "-n", "istio-system", "--length", "1s"},
	} {
		if _, said, err := runIn(t.Context(), args...); err == nil || !strings.Contains(err.Error(), "another run is active in this cluster: run other-run of other-study") {
			t.Errorf("%v beside a run: %v\n%s", args, err, said)
		}
	}
	if after := state(); after != before {
		t.Errorf("who was refused has changed something:\n%s\n%s", before, after)
	}

	const waits = "waiting for the cluster: run other-run of other-study"
	var output lockedBuffer
	ended := make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), append(test, "--wait", "5m"), &Env{Stdin: strings.NewReader(""), Stdout: &output, Stderr: &output})
	}()
	eventually.Within(t, 4*time.Minute, waits, func() bool { return strings.Contains(output.String(), waits) })
	if err := j.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !strings.Contains(output.String(), "pushes") {
		t.Errorf("once its turn has come: %v\n%s", err, output.String())
	}
	if holder, err := app.ReadClusterStatus(t.Context(), l.RESTConfig()); err != nil || holder.Holder != nil {
		t.Errorf("the Lease is not given back: %+v, %v", holder.Holder, err)
	}
}
