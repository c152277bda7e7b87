//go:build verify

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/testing/must"
)

// drained is how long nothing may have changed for listeners to have drained,
// for which Istio allows 45 s.
const drained = time.Minute

// TestGeneratedSidecars: Sidecars from the counters of proxies under real
// traffic lose no request while they are applied and after, and while they are taken
// back, neither to what was called all the time, by names that no counter has too,
// nor to what was called once; they save nine tenths of
// what Sidecars by somebody who knows the graph save, and what was predicted;
// istiod pushes less. A workload that nobody saw is not narrowed.
func TestGeneratedSidecars(t *testing.T) {
	g := newCallGraph(t)
	// Requests begin at the root and reach every service; the rare one is
	// called a single time, from the root's pod.
	// Every size has as many calls a second: what the machine can carry.
	rate := 200 / float64(g.services)
	g.whole(g.load(1, 0, rate, 15*time.Second)(), "before")
	g.whole(g.load(0, g.rare(), 1, time.Second)(), "the rare call")
	before := g.cost()

	folder := filepath.Join(t.TempDir(), "sidecars")
	wait := g.load(1, 0, rate, 3*drained)
	r := g.generate(folder, "--apply")
	idle := g.name(g.services - 1) // on a pod with others it is not alone
	if g.pods == g.services && !slices.ContainsFunc(r.Open, func(o generate.Open) bool { return o.Code == generate.OpenUnseen && o.Name == idle }) {
		t.Errorf("%s was not seen, and is not listed: %+v", idle, r.Open)
	}
	after := g.cost()
	g.whole(wait(), "while Sidecars were applied")
	g.whole(g.load(0, g.rare(), 1, time.Second)(), "the rare call again")

	wait = g.load(1, 0, rate, 20*time.Second)
	g.takeBack()
	g.whole(wait(), "while Sidecars were taken back")
	if left := strings.TrimSpace(g.kubectl("", "get", "sidecars.networking.istio.io", "-A", "-o", "jsonpath={.items[*].metadata.name}")); left != "" {
		t.Errorf("not taken back: %s", left)
	}
	g.kubectl(g.handMade(), "apply", "-f", "-")
	exact := g.cost()
	g.judge(r, before, after, exact)
}

// takeBack undoes what was applied.
func (g callGraph) takeBack() {
	g.t.Helper()
	var status app.ClusterStatus
	must.OK(g.t, json.Unmarshal([]byte(g.run("cluster", "status", "--kubeconfig", g.lab.Kubeconfig(), "--json")), &status))
	if len(status.Changes) == 0 {
		g.t.Fatal("nothing was recorded")
	}
	g.run("cluster", "restore", "--kubeconfig", g.lab.Kubeconfig(), "--run", status.Changes[0].Run)
}

// cost is what the graph's sidecars cost.
type cost struct {
	configuration int64   // bytes as JSON, all sidecars
	memory        int64   // bytes that they have allocated
	pushes        float64 // of istiod for a change of a Service, all types
	cpu           float64 // istiod's seconds for it
}

// cost reads it when nothing has changed for as long as listeners drain.
func (g callGraph) cost() cost {
	g.t.Helper()
	r, since := g.scope(), time.Now()
	for time.Since(since) < drained {
		time.Sleep(5 * time.Second)
		if again := g.scope(); again.DumpBytes != r.DumpBytes {
			r, since = again, time.Now()
		}
	}
	c := cost{configuration: r.DumpBytes}
	dialer := lab.NewDialer(g.lab.RESTConfig())
	defer dialer.Close()
	for _, p := range r.Proxies {
		namespace, pod, _ := strings.Cut(p.Name, "/")
		var answer struct {
			Allocated string `json:"allocated"`
		}
		err := app.GetAdmin(g.t.Context(), dialer.Client(namespace, pod, 15000), "/memory", func(r io.Reader) error { return json.NewDecoder(r).Decode(&answer) })
		bytes, failed := strconv.ParseInt(answer.Allocated, 10, 64)
		err = errors.Join(err, failed)
		must.OK(g.t, err)
		c.memory += bytes
	}
	const changes = 8
	pushes, cpu := g.istiod(dialer)
	for i := range changes {
		of := i % (g.services - 2)
		g.kubectl("", "-n", g.namespace(of), "label", "service", g.name(of), "--overwrite", fmt.Sprintf("changed=%d", time.Now().UnixNano()))
		time.Sleep(time.Second) // longer than istiod waits for more changes
	}
	time.Sleep(2 * time.Second)
	more, burned := g.istiod(dialer)
	c.pushes, c.cpu = (more-pushes)/changes, (burned-cpu)/changes
	g.t.Logf("%d kB of configuration, %d kB of memory in %d sidecars; for a change of a Service %.1f pushes, %.1f ms of istiod's CPU",
		c.configuration>>10, c.memory>>10, len(r.Proxies), c.pushes, 1000*c.cpu)
	return c
}

// istiod's pushes so far, and its seconds of CPU.
func (g callGraph) istiod(dialer *lab.Dialer) (pushes, cpu float64) {
	g.t.Helper()
	pod := strings.TrimSpace(g.kubectl("", "-n", "istio-system", "get", "pods", "-l", "app=istiod", "-o", "jsonpath={.items[0].metadata.name}"))
	page, err := observe.Fetch(g.t.Context(), dialer.Client("istio-system", pod, 15014), "http://istiod/metrics")
	must.OK(g.t, err)
	for _, m := range page {
		switch m.Name {
		case "pilot_xds_pushes":
			pushes += m.Value
		case "process_cpu_seconds_total":
			cpu = m.Value
		}
	}
	return pushes, cpu
}

// judge compares what was generated with what a person would write, and with
// what was predicted.
func (g callGraph) judge(r generate.Result, before, after, exact cost) {
	g.t.Helper()
	saved := float64(before.configuration - after.configuration)
	share, said := saved/float64(before.configuration-exact.configuration), float64(r.Saving.Now.Dump-r.Saving.After.Dump)
	g.t.Logf("%d services on %d pods: %.1f%% of the saving by hand; predicted %.0f kB less, measured %.0f kB; memory %.1f%% less, pushes %.1f%%, istiod's CPU %.1f%%", g.services, g.pods, 100*share, said/1024, saved/1024,
		100*(1-float64(after.memory)/float64(before.memory)), 100*(1-after.pushes/before.pushes), 100*(1-after.cpu/before.cpu))
	if share < 0.9 {
		g.t.Errorf("%.1f%% of the saving by hand", 100*share)
	}
	if off := said/saved - 1; off < -0.15 || off > 0.15 {
		g.t.Errorf("the prediction is %.0f%% off", 100*off)
	}
	if after.pushes >= before.pushes {
		g.t.Errorf("%.1f pushes for a change, %.1f before", after.pushes, before.pushes)
	}
}
