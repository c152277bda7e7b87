//go:build verify

package runner_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
)

// A run that asks the kubelet, beside an observer of this test's that reads the
// same containers' cgroups all the while.
func TestKubelets(t *testing.T) {
	b := newBench(t)
	file := b.study(t, "kubelets", `
settings: {sidecars: both, rate: 300}
factors: {connections: [2, 8]}
baseline: {connections: 2}
blocks: {min: 2, max: 2, limit: 20m, redeploy: 0}
measures: [latency, cpu, memory, connections, threads]
`)
	out := filepath.Join(b.dir, "kubelets")
	ctx, cancel := context.WithCancel(t.Context())
	truth := &cgroups{b: b, samples: map[string][]observe.Sample{}}
	var watching sync.WaitGroup
	watching.Go(func() { truth.watch(ctx, t) })
	code, said := b.meshtrial(t, "run", file, "--out", out, "--observe", "kubelet", "--set", "window=12s")
	cancel()
	watching.Wait()
	measured(t, code, said)
	if !strings.Contains(said, "threads, their waits, sockets") || !strings.Contains(said, "create daemonsets.apps") {
		t.Errorf("what is not measured is not told:\n%s", said)
	}
	run, _, err := store.Load(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	if why := noneValid(run); why != "" {
		t.Fatalf("%s\n%s", why, said)
	}
	if h := run.Header; h.Observed != record.ObservedKubelet || h.Machine.CPUs == 0 || h.Machine.Kernel == "" || h.Machine.Nodes != 1 || !strings.HasPrefix(h.Machine.ContainerRun, "containerd ") {
		t.Errorf("%+v", h)
	}
	if truth.observers > 0 {
		t.Errorf("%d observers ran", truth.observers)
	}
	var off, told []float64
	figures := 0
	for _, trial := range run.Trials {
		if trial.Threads != nil || trial.Pressure != nil || trial.Others != nil || len(trial.Connections) > 0 {
			t.Errorf("trial %s has what kubelets do not tell", trial.ID)
		}
		if trial.Memory[record.PartClientProxy].WorkingSetBytes <= 0 || trial.Memory[record.PartControl].WorkingSetBytes <= 0 || trial.CPU[record.PartControl].TotalS() <= 0 {
			t.Errorf("trial %s: memory %+v, CPU %+v", trial.ID, trial.Memory, trial.CPU)
		}
		for _, part := range []string{record.PartGenerator, record.PartWorker, record.PartClientProxy, record.PartServerProxy} {
			used, s := trial.CPU[part].TotalS(), trial.Sampled[part]
			low, want, high, err := truth.used(part+twin(trial.Repeat > 0), trial.Window)
			if err != nil {
				t.Errorf("trial %s, %s: %v", trial.ID, part, err)
				continue
			}
			figures++
			if high-low < 0.05*want { // else too few looks of this test's say how far off it is
				off, told = append(off, (used-want)/want), append(told, s.ErrorS/want)
			}
			says := fmt.Sprintf("trial %s, %s: the cgroup %.4f s (%.4f to %.4f), the kubelet %.4f s: off by %+.2f%%, standard error %.2f%%, between %+.0f%% and %+.0f%%; %d samples up to %.1f s apart",
				trial.ID, part, want, low, high, used, 100*(used/want-1), 100*s.ErrorS/want, 100*(s.LowS/want-1), 100*(s.HighS/want-1), s.Samples, s.GapS)
			t.Log(says)
			if slack := 0.01 * want; high < s.LowS-slack || low > s.HighS+slack {
				t.Error(says)
			}
		}
	}
	rms := func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v * v
		}
		return math.Sqrt(sum / float64(len(x)))
	}
	if len(off) < figures/4 {
		t.Errorf("%d of %d figures are known to within 5%%", len(off), figures)
	}
	t.Logf("%d of %d figures: off by %.2f%% (root mean square), standard error told %.2f%%", len(off), figures, 100*rms(off), 100*rms(told))
	b.gone(t)
}

// cgroups are the counters of a run's containers, by part.
type cgroups struct {
	b         *bench
	samples   map[string][]observe.Sample
	observers int // pods of the observe role that were seen
}

// watch reads them ten times a second, of the pods that there are.
func (c *cgroups) watch(ctx context.Context, t *testing.T) {
	server, err := observe.New(observe.Options{Control: "127.0.0.1:0"})
	if err != nil {
		t.Error(err)
		return
	}
	go func() { _ = server.Serve(ctx) }()
	client := observe.Client{BaseURL: "http://" + server.Address()}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var targets []observe.Target
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if len(targets) < 8 { // of the pods, and of their twins
			if targets, err = c.targets(ctx); err != nil || len(targets) < 8 {
				continue
			}
		}
		shot, err := client.Snapshot(ctx, targets, false)
		if err != nil {
			continue
		}
		for part, sample := range shot.Targets {
			if sample.Error == "" {
				c.samples[part] = append(c.samples[part], sample)
			}
		}
	}
}

func (c *cgroups) targets(ctx context.Context) ([]observe.Target, error) {
	pods, err := c.b.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: site.RunLabel})
	if err != nil {
		return nil, err
	}
	var out []observe.Target
	for _, pod := range pods.Items {
		app := pod.Labels[mesh.AppLabel]
		if app == site.RoleObserve {
			c.observers++
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			part := map[string]string{"client load": record.PartGenerator, "client istio-proxy": record.PartClientProxy,
				"server worker": record.PartWorker, "server istio-proxy": record.PartServerProxy}[strings.Split(app, "-")[0]+" "+status.Name]
			if part != "" && running(status) {
				out = append(out, observe.Target{Name: part + twin(strings.HasSuffix(app, "-twin")), PodUID: string(pod.UID), ContainerID: status.ContainerID})
			}
		}
	}
	return out, nil
}

// twin tells the pods of the second baseline apart, which has its own.
func twin(is bool) string {
	if is {
		return " of the twin"
	}
	return ""
}

func running(s corev1.ContainerStatus) bool { return s.State.Running != nil && s.ContainerID != "" }

// used is what a part used in a window, in seconds: no less than low and no more than high,
// by the samples before and after each edge, and want where its counter at an edge lies on
// the line between them. A busy machine may keep them seconds apart.
func (c *cgroups) used(part string, w record.Window) (low, want, high float64, err error) {
	all := c.samples[part]
	at := func(when time.Time) (before, on, after float64, err error) {
		ns := when.UnixNano()
		i := sort.Search(len(all), func(i int) bool { return all[i].AtUnixNS >= ns })
		if i == 0 || i == len(all) {
			return 0, 0, 0, fmt.Errorf("%d samples, none on both sides of %v", len(all), when)
		}
		a, b := all[i-1], all[i]
		share := float64(ns-a.AtUnixNS) / float64(b.AtUnixNS-a.AtUnixNS)
		before, after = float64(a.CPU.TotalNS)/1e9, float64(b.CPU.TotalNS)/1e9
		return before, before + share*(after-before), after, nil
	}
	beginLow, begin, beginHigh, err := at(w.Start)
	if err != nil {
		return 0, 0, 0, err
	}
	endLow, end, endHigh, err := at(w.Start.Add(time.Duration(w.Seconds * float64(time.Second))))
	return endLow - beginHigh, end - begin, endHigh - beginLow, err
}
