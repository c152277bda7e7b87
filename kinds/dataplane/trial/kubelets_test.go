package trial

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/kubelet"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// For a control plane's pods the containers are queried: a pod's own samples come from cAdvisor,
// and may be the only rare ones.
func TestTargetsOfKubelets(t *testing.T) {
	for kubelets, want := range map[bool]map[string][]kubelet.Container{
		true:  {"a": {{Pod: "mesh/i", Name: "discovery"}}},
		false: {"a": {{Pod: "mesh/i"}}},
	} {
		trial := &trialRun{o: &runner.Options{Mesh: none.Mesh{}}, client: &loadRole{}, server: &workerRole{},
			d: &deployed{Site: &site.Site{Kubelets: kubelets, Control: []site.Pod{{Namespace: "mesh", Name: "i", Node: "a", Containers: map[string]string{"discovery": "containerd://1"}}}}}}
		trial.findTargets()
		if got := wanted(trial.targets); !reflect.DeepEqual(got, want) {
			t.Errorf("kubelets %v: %+v", kubelets, got)
		}
	}
}

// A trial's CPU is interpolated between the samples of its containers, summed per part. What the
// kubelet lacks is reported.
func TestSampledCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial := &trialRun{
			o:      &runner.Options{Study: &study.Study{Measures: []string{study.MeasureMemory}}, Mesh: nodeMesh{}},
			server: &workerRole{pod: site.Pod{Node: "b"}},
			targets: map[string][]observe.Target{
				"a": {{Name: record.PartGenerator, Pod: "g", Container: "load"}},
				"b": {{Name: record.PartWorker, Pod: "w", Container: "worker"}, {Name: record.PartServerProxy, Pod: "w", Container: "istio-proxy"},
					{Name: record.PartControl + "-0", Pod: "i"}, {Name: record.PartControl + "-1", Pod: "j"},
					{Name: record.PartNodeAgent, Pod: "agent", Container: "agent"}},
			},
		}
		began := time.Now()
		read := func(_ context.Context, node string) (kubelet.Page, error) {
			if node == "a" && time.Since(began) > 3*time.Second {
				return kubelet.Page{}, errors.New("the node is gone")
			}
			out := kubelet.Page{Containers: map[kubelet.Container]kubelet.Stats{}}
			for c, cpus := range map[kubelet.Container]float64{{Pod: "g", Name: "load"}: 0.2, {Pod: "w", Name: "worker"}: 0.5, {Pod: "i"}: 0.1, {Pod: "j"}: 0.3} {
				out.Containers[c] = kubelet.Stats{CPU: kubelet.Sample{At: time.Now(), UsedNS: uint64(cpus * float64(time.Since(began)))}, Memory: int64(1000 * cpus), MemoryAt: time.Now()}
			}
			if node == "b" {
				out.Node = kubelet.Stats{CPU: kubelet.Sample{At: time.Now().Truncate(15 * time.Second), UsedNS: 1}}
			}
			return out, nil
		}
		watch := kubelet.Start(t.Context(), read, wanted(trial.targets), time.Second)
		time.Sleep(20500 * time.Millisecond)
		watch.Stop()
		out := &record.Trial{NodeAgents: 1, Window: record.Window{Start: began.Add(1500 * time.Millisecond), Seconds: 10}}
		trial.sampledCosts(out, watch)
		for part, want := range map[string]float64{record.PartWorker: 5, record.PartControl: 4} {
			s := out.Sampled[part]
			if cpu := out.CPU[part]; math.Abs(cpu.UserS-want) > 1e-6 || cpu.SystemS != 0 || s.ErrorS > 1e-6 || math.Abs(s.LowS-0.9*want) > 1e-6 || math.Abs(s.HighS-1.1*want) > 1e-6 || s.GapS != 1 || s.Samples != 12 {
				t.Errorf("%s: %+v, %+v", part, cpu, s)
			}
		}
		if got := out.Memory[record.PartControl]; got != (record.Memory{WorkingSetBytes: 400}) {
			t.Errorf("memory of two pods: %+v", got)
		}
		var unread []string
		for _, c := range trial.seen.Unread {
			unread = append(unread, c.Name+": "+c.Detail)
		}
		slices.Sort(unread)
		if want := []string{"cpu-generator: container load of pod g on node a: the kubelet has no sample from after the window yet: the node is gone",
			"cpu-server_proxy: container istio-proxy of pod w on node b: the kubelet of node b says nothing of container istio-proxy of pod w"}; !slices.Equal(unread, want) {
			t.Errorf("%q", unread)
		}
		// Its machine is sampled too seldom for so short a window.
		if m := trial.seen.Unmeasured; len(m) != 2 || !strings.Contains(m[0], "the node agent, which no request passes, were not measured: on node b: ") || out.NodeAgents != 0 ||
			!strings.Contains(m[1], "the CPU of the machine as a whole was not measured: ") || trial.seen.Source != record.ObservedKubelet {
			t.Errorf("%q by %s", m, trial.seen.Source)
		}
		if _, ok := out.CPU[record.PartMachine]; ok || len(out.CPU) != 2 {
			t.Errorf("%+v", out.CPU)
		}
	})
}

// A node whose clock is ahead or behind is reported. If its samples date from before the load, the
// trial is invalid.
func TestNodesClocks(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead, generator time.Duration // of this machine's clock
		set              time.Duration // after 2.5 s
		check, remark    string
	}{
		"agree":                            {0, 0, 0, "", ""},
		"set ahead":                        {0, 0, 5 * time.Second, "node a, or of this machine, was set by at least 4.5 s", ""},
		"set back":                         {0, 0, -1500 * time.Millisecond, "node a, or of this machine, was set by at least 1 s", ""},
		"agree, and not with this machine": {time.Hour, time.Hour, 0, "", ""},
		"somewhat ahead":                   {2500 * time.Millisecond, 0, 0, "", "node a is at least 2.5 s ahead"},
		"ahead of the load":                {30 * time.Second, 0, 0, "node a is 30 s ahead", ""},
		"ahead as this machine is not":     {0, -30 * time.Second, 0, "node a is 30 s ahead", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			trial := &trialRun{clockAhead: tt.generator, targets: map[string][]observe.Target{"a": {{Name: record.PartWorker, Pod: "w", Container: "worker"}}}}
			began := time.Now()
			read := func(context.Context, string) (kubelet.Page, error) {
				at := time.Now().Add(tt.ahead)
				if time.Since(began) > 2500*time.Millisecond {
					at = at.Add(tt.set)
				}
				return kubelet.Page{Containers: map[kubelet.Container]kubelet.Stats{{Pod: "w", Name: "worker"}: {CPU: kubelet.Sample{At: at, UsedNS: uint64(time.Since(began))}}}}, nil
			}
			watch := kubelet.Start(t.Context(), read, wanted(trial.targets), 500*time.Millisecond)
			time.Sleep(5 * time.Second)
			watch.Stop()
			trial.started.StartUnixNS = began.Add(tt.generator).UnixNano()
			trial.compareKubelets(watch, time.Unix(0, trial.started.StartUnixNS).Add(10*time.Second))
			unread, remarks := "", strings.Join(trial.seen.Unmeasured, "\n")
			for _, c := range trial.seen.Unread {
				unread += c.Name + ": " + c.Detail
			}
			if tt.check == "" && unread != "" || tt.check != "" && !(strings.HasPrefix(unread, "kubelet-clocks: ") && strings.Contains(unread, tt.check)) {
				t.Errorf("%s: not valid for %q", name, unread)
			}
			if tt.remark == "" && remarks != "" || !strings.Contains(remarks, tt.remark) {
				t.Errorf("%s: %q", name, remarks)
			}
		})
	}
}

// A node's clock neither moves the window into the future nor ends the load before the window. One
// that is ahead by more than the load has lasted is named at once.
func TestWindowByNodesClocks(t *testing.T) {
	const loaded, window, finished = 60 * time.Second, 84 * time.Second, 58
	for name, tt := range map[string]struct {
		ahead time.Duration
		most  int // interval that the window begins with
		err   string
	}{
		"agrees":             {0, 74, ""},
		"ahead":              {50 * time.Second, 61, ""},
		"ahead by an hour":   {time.Hour, 0, "the clock of node a is "},
		"behind by a minute": {-time.Minute, 0, "behind that of the load generator"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trial := &trialRun{o: &runner.Options{Study: &study.Study{Section: &dataplane.Section{Interval: time.Second, Window: window}}}, targets: map[string][]observe.Target{"a": {{Name: record.PartWorker, Pod: "w", Container: "worker"}}}}
				began := time.Now()
				read := func(context.Context, string) (kubelet.Page, error) {
					at := time.Now().Truncate(13 * time.Second)
					return kubelet.Page{Containers: map[kubelet.Container]kubelet.Stats{{Pod: "w", Name: "worker"}: {CPU: kubelet.Sample{At: at.Add(tt.ahead), UsedNS: uint64(at.Sub(began.Add(-time.Minute)))}}}}, nil
				}
				trial.started.StartUnixNS = began.UnixNano()
				time.Sleep(loaded)
				watch := kubelet.Start(t.Context(), read, wanted(trial.targets), 5*time.Second)
				defer watch.Stop()
				from, to, err := trial.amongSamples(t.Context(), watch, finished)
				if tt.err != "" {
					if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(errs.Hint(err), "NTP") || time.Since(began) > loaded+time.Minute {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
					return
				}
				if err != nil || from < finished || from > tt.most || to != from+84 {
					t.Errorf("from %d to %d, %v", from, to, err)
				}
				if passed := time.Since(began); passed < time.Duration(to)*time.Second || passed > time.Duration(to)*time.Second+kubelet.Longest+kubelet.Patience {
					t.Errorf("the load ends after %v, the window after %d s", passed, to)
				}
			})
		})
	}
}

// An agent that is replaced or restarted costs the trial at most the agents' figures, no time, and
// no other figures. The same holds for a proxy beside the way.
func TestWindowOutlastsAgents(t *testing.T) {
	for _, part := range unpassed {
		t.Run(part, func(t *testing.T) { windowOutlasts(t, part) })
	}
}

func windowOutlasts(t *testing.T, part string) {
	const loaded, window = 20 * time.Second, 12 * time.Second
	for name, c := range map[string]struct {
		ends  time.Duration // since the start of the load
		again bool          // and its pod has another container at once
		lacks string
	}{
		"it stays":                   {time.Hour, false, ""},
		"replaced in the warm-up":    {10 * time.Second, false, "on node a: the kubelet of node a says nothing of container agent of pod agent"},
		"restarts in the warm-up":    {10 * time.Second, true, ""},
		"replaced within the window": {25 * time.Second, false, "on node a: the kubelet has no sample from after the window yet"},
		"restarts within the window": {25 * time.Second, true, kubelet.ErrReset.Error()},
		"restarts after the window":  {32500 * time.Millisecond, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trial := &trialRun{o: &runner.Options{Study: &study.Study{Section: &dataplane.Section{Interval: time.Second, Window: window}}, Mesh: nodeMesh{}}, server: &workerRole{pod: site.Pod{Node: "a"}},
					targets: map[string][]observe.Target{"a": {{Name: record.PartWorker, Pod: "w", Container: "worker"}, {Name: part, Pod: "agent", Container: "agent", MayEnd: true}}}}
				began := time.Now()
				trial.started.StartUnixNS = began.UnixNano()
				read := func(context.Context, string) (kubelet.Page, error) {
					passed := time.Since(began)
					using := func(cpus float64, since time.Duration) kubelet.Stats {
						return kubelet.Stats{CPU: kubelet.Sample{At: time.Now(), UsedNS: uint64(cpus * float64(passed-since))}}
					}
					page := kubelet.Page{Node: using(1, 0), Containers: map[kubelet.Container]kubelet.Stats{{Pod: "w", Name: "worker"}: using(0.5, 0)}}
					agent := kubelet.Container{Pod: "agent", Name: "agent"}
					switch {
					case passed < c.ends:
						page.Containers[agent] = using(0.1, 0)
					case c.again:
						page.Containers[agent] = using(0.1, c.ends)
					}
					return page, nil
				}
				time.Sleep(loaded)
				watch := trial.askKubelets(t.Context(), read)
				defer watch.Stop()
				from, to, err := trial.amongSamples(t.Context(), watch, 10)
				if took := time.Since(began); err != nil || from != 20 || to != 32 || took != loaded+window {
					t.Fatalf("from %d to %d after %v: %v", from, to, took, err)
				}
				out := &record.Trial{NodeAgents: 1, IdleNodes: 1, Window: record.Window{Start: began.Add(loaded), Seconds: window.Seconds()}}
				trial.sampledCosts(out, watch)
				want := map[string]float64{record.PartWorker: 6, record.PartMachine: 12}
				if c.lacks == "" {
					want[part] = 1.2
				}
				for one, cpu := range want {
					if got := out.CPU[one].TotalS(); math.Abs(got-cpu) > 1e-6 {
						t.Errorf("%s used %v s, want %v", one, got, cpu)
					}
				}
				agents, idle := 1, 1
				if c.lacks != "" && part == record.PartNodeAgent {
					agents = 0
				} else if c.lacks != "" {
					idle = 0
				}
				if len(out.CPU) != len(want) || out.NodeAgents != agents || out.IdleNodes != idle || (trial.anew["a"] != nil) != (idle == 0) || len(trial.seen.Unread) > 0 {
					t.Errorf("%d agents, %d proxies, anew %v, CPU %v, unread %v", out.NodeAgents, out.IdleNodes, trial.anew, out.CPU, trial.seen.Unread)
				}
				said := strings.Join(trial.seen.Unmeasured, "; ")
				if (said == "") != (c.lacks == "") || !strings.Contains(said, c.lacks) {
					t.Errorf("it says %q, want %q", said, c.lacks)
				}
			})
		})
	}
}

// Agents, and proxies beside the way, whose samples are too far apart by the run's rules only cost
// the trial their figures; under wider rules these count.
func TestUnpassedSampledSeldom(t *testing.T) {
	for limit, lacks := range map[float64]string{0.25: "on node a: the kubelet sampled its CPU counters 4.0 s apart, limit 3.0 s in a window of 12 s", 0.5: ""} {
		synctest.Test(t, func(t *testing.T) {
			trial := &trialRun{o: &runner.Options{Study: &study.Study{}, Mesh: nodeMesh{}, Rules: record.Rules{Limits: map[string]float64{"cpu-gaps": limit}}}, server: &workerRole{pod: site.Pod{Node: "a"}},
				targets: map[string][]observe.Target{"a": {{Name: record.PartWorker, Pod: "w", Container: "worker"}}}}
			stats, began := map[kubelet.Container]time.Duration{{Pod: "w", Name: "worker"}: time.Second}, time.Now()
			for _, part := range unpassed {
				trial.targets["a"] = append(trial.targets["a"], observe.Target{Name: part, Pod: part, Container: "one", MayEnd: true})
				stats[kubelet.Container{Pod: part, Name: "one"}] = 4 * time.Second
			}
			using := func(every time.Duration) kubelet.Stats {
				last := time.Now().Truncate(every)
				return kubelet.Stats{CPU: kubelet.Sample{At: last, UsedNS: uint64(last.Sub(began) / 10)}}
			}
			watch := trial.askKubelets(t.Context(), func(context.Context, string) (kubelet.Page, error) {
				page := kubelet.Page{Node: using(time.Second), Containers: map[kubelet.Container]kubelet.Stats{}}
				for c, every := range stats {
					page.Containers[c] = using(every)
				}
				return page, nil
			})
			time.Sleep(24500 * time.Millisecond)
			watch.Stop()
			out := &record.Trial{NodeAgents: 1, IdleNodes: 1, Window: record.Window{Start: began.Add(8 * time.Second), Seconds: 12}}
			trial.sampledCosts(out, watch)
			kept := lacks == ""
			for _, part := range unpassed {
				cpu, whole := out.CPU[part]
				if whole != kept || whole && (math.Abs(cpu.UserS-1.2) > 1e-6 || out.Sampled[part].GapS != 4) {
					t.Errorf("limit %g: %s used %v, samples %v", limit, part, cpu, out.Sampled)
				}
			}
			if (out.NodeAgents == 1) != kept || (out.IdleNodes == 1) != kept || len(trial.anew)+len(trial.seen.Unread) > 0 || math.Abs(out.CPU[record.PartWorker].UserS-1.2) > 1e-6 {
				t.Errorf("limit %g: %d agents, %d proxies, anew %v, unread %v, CPU %v", limit, out.NodeAgents, out.IdleNodes, trial.anew, trial.seen.Unread, out.CPU)
			}
			if said := trial.seen.Unmeasured; (len(said) == 0) != kept || slices.ContainsFunc(said, func(text string) bool { return !strings.HasSuffix(text, lacks) }) {
				t.Errorf("limit %g: it says %q", limit, said)
			}
		})
	}
}
