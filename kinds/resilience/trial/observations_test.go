package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
	"k8s.io/client-go/rest"
)

// Nodes that share a machine each count all of it; the sum has it once.
func TestMachineOfSeveralNodes(t *testing.T) {
	for name, c := range map[string]struct {
		boots map[string]string // by node
		want  float64
	}{
		"one node":                 {map[string]string{"a": "1"}, 2},
		"a local lab's":            {map[string]string{"a": "1", "b": "1", "c": "1"}, 2},
		"a cluster's":              {map[string]string{"a": "1", "b": "2", "c": "3"}, 6},
		"of nobody knows which":    {map[string]string{"a": "", "b": ""}, 4},
		"some of them on one host": {map[string]string{"a": "1", "b": "1", "c": "2"}, 4},
	} {
		l := &looks{t: &scenarioTrial{stage: &stage{}}, nodes: map[string]bool{}, machine: [2]map[string]observe.MachineSample{{}, {}}}
		for node, boot := range c.boots {
			l.nodes[node] = true
			l.machine[0][node] = observe.MachineSample{AtUnixNS: 1, BootID: boot}
			l.machine[1][node] = observe.MachineSample{AtUnixNS: 1e9 + 1, BootID: boot, UserNS: 2e9}
		}
		if got := l.cpu()[record.PartMachine].TotalS(); got != c.want {
			t.Errorf("%s: %v s, want %v", name, got, c.want)
		}
	}
}

// CPU is counted from right before the timeline: an earlier period without activity would count as
// idle use.
func TestCountersBeginWithTheTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zero := time.Now().Add(loadAhead)
		ctx, cancel := context.WithDeadline(t.Context(), zero.Add(3*time.Second))
		defer cancel()
		l := &looks{t: &scenarioTrial{stage: &stage{Site: &site.Site{}}, zero: zero}}
		var at []time.Duration
		l.count(ctx, func(context.Context) error {
			at = append(at, time.Since(zero))
			return nil
		})
		want := []time.Duration{-100 * time.Millisecond, 900 * time.Millisecond, 1900 * time.Millisecond, 2900 * time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("looks at %v, want %v", at, want)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// through returns an observer whose responses f gives.
func through(f roundTrip) observe.Client {
	return observe.Client{HTTPClient: &http.Client{Transport: f}, BaseURL: "http://node"}
}

func answerOf(shot observe.Snapshot) (*http.Response, error) {
	data, err := json.Marshal(observe.SnapshotsAnswer{Snapshots: []observe.Snapshot{shot}})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(data))}, err
}

// counting returns the observer of a node on which everything has used total, at that time, and the
// machine twice as much. It fails as broken says.
func counting(total *uint64, broken func() bool) observe.Client {
	return through(func(r *http.Request) (*http.Response, error) {
		defer r.Body.Close()
		var request observe.SnapshotsRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			return nil, err
		}
		if broken() {
			return nil, errors.New("the line broke")
		}
		shot := observe.Snapshot{Targets: map[string]observe.Sample{}, ProcessesNS: int64(*total), Processes: []observe.ProcessSample{{PID: 1, Command: "kubelet", TotalNS: *total / 4}},
			Machine: observe.MachineSample{AtUnixNS: int64(*total), BootID: "1", CPUs: 2, UserNS: 2 * *total, IdleNS: min(*total, 20e9)}}
		for _, target := range request.Targets {
			shot.Targets[target.Name] = observe.Sample{CPU: observe.CPUSample{TotalNS: *total, UserNS: *total}}
		}
		return answerOf(shot)
	})
}

func never() bool { return false }

// looksAt samples what is at a site.
func looksAt(at *site.Site) *looks {
	return &looks{t: &scenarioTrial{stage: &stage{Site: at}, census: &census{}}, cancel: func() {},
		first: map[string]usage{}, last: map[string]usage{}, away: map[string]bool{}, machine: [2]map[string]observe.MachineSample{{}, {}}, others: map[string]site.Shots{}}
}

// The first sample covers all nodes, at once: what a pod had used before it, on whichever node,
// does not belong to the trial. A later pod had used nothing.
func TestFirstLookOfSeveralNodes(t *testing.T) {
	total := uint64(5e9)
	at := &site.Site{Observers: map[string]observe.Client{"a": counting(&total, never), "b": counting(&total, never)}, Control: []site.Pod{{UID: "1", Node: "a"}, {UID: "2", Node: "b"}}}
	l := looksAt(at)
	for range 2 {
		must.OK(t, l.cost(t.Context(), false))
		total += 1e9
	}
	at.Control = append(at.Control, site.Pod{UID: "3", Node: "b"})
	total = 7e9
	must.OK(t, l.cost(t.Context(), false))
	cpu := l.cpu()
	if got := cpu[partControlPlane].TotalS(); got != 2+2+7 {
		t.Errorf("the control plane used %v s", got)
	}
	if got := cpu[record.PartMachine].TotalS(); got != 4 {
		t.Errorf("the machine used %v s", got)
	}
	if got := l.counted(); got != 2 {
		t.Errorf("counted for %v s", got)
	}
	if l.whole("1") != nil {
		t.Error("a pod that stayed passes for one that left")
	}
	at.Control = append(at.Control, site.Pod{UID: "4", Node: "c"})
	if err := l.cost(t.Context(), false); err == nil || !strings.Contains(err.Error(), "no observer runs on node c") {
		t.Errorf("a pod that nobody counts: %v", err)
	}
}

// Pods on a node that could not be read in the first sample count from the next one, not from their
// start, and the trial's CPU is counted for correspondingly less time.
func TestFirstLookThatFails(t *testing.T) {
	total, broken := uint64(5e9), true
	at := &site.Site{Observers: map[string]observe.Client{"a": counting(&total, never), "b": counting(&total, func() bool { return broken })}, Control: []site.Pod{{UID: "1", Node: "a"}, {UID: "2", Node: "b"}}}
	l := looksAt(at)
	if err := l.cost(t.Context(), false); err == nil || !strings.Contains(err.Error(), "observe node b") {
		t.Fatalf("an observer that does not answer: %v", err)
	}
	at.Control, broken = append(at.Control, site.Pod{UID: "3", Node: "b"}), false
	for total = 6e9; total <= 7e9; total += 1e9 {
		must.OK(t, l.cost(t.Context(), false))
	}
	if got := l.cpu()[partControlPlane].TotalS(); got != 2+1+7 {
		t.Errorf("the control plane used %v s", got)
	}
	if got := l.counted(); got != 1 {
		t.Errorf("counted for %v s, want 1", got)
	}
}

// The time over which CPU was counted does not depend on a clock that is set meanwhile.
func TestCountedWhileClockIsSet(t *testing.T) {
	shot := observe.Snapshot{Machine: observe.MachineSample{AtUnixNS: 5e9, BootID: "1", CPUs: 2}}
	client := through(func(*http.Request) (*http.Response, error) { return answerOf(shot) })
	l := looksAt(&site.Site{Observers: map[string]observe.Client{"a": client}, Control: []site.Pod{{UID: "1", Node: "a"}}})
	must.OK(t, l.cost(t.Context(), false))
	shot.Machine.AtUnixNS, shot.Machine.SteppedNS = 5.5e9, -1.5e9
	must.OK(t, l.cost(t.Context(), false))
	if got := l.counted(); got != 2 {
		t.Errorf("counted for %v s", got)
	}
}

// twoNodes is a lab of two nodes on this machine.
type twoNodes struct{ lab.Lab }

func (twoNodes) RESTConfig() *rest.Config { return &rest.Config{} }
func (twoNodes) Process() int             { return 1 }
func (twoNodes) Size() int                { return 2 }

// A lab node without pods of the trial does not invalidate it, whichever sample of the node fails:
// its usage is not the trial's, and the other node counts the machine, for the whole time. Other
// processes there are read first and last, and are unknown if one of these fails, or if steps
// brought pods there long after the first.
func TestLooksAtIdleNodeThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		fails [2]bool // in the first sample and the last
		comes bool    // whether a pod does, in between
		asked int
	}{
		"none":                     {asked: 2},
		"the first":                {fails: [2]bool{true, false}, asked: 2},
		"the last":                 {fails: [2]bool{false, true}, asked: 2},
		"both":                     {fails: [2]bool{true, true}, asked: 2},
		"none, and pods come":      {comes: true, asked: 3},
		"the first, and pods come": {fails: [2]bool{true, false}, comes: true, asked: 3},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := site.New(twoNodes{}, nil, "r")
			must.OK(t, err)
			total, fails, asked := uint64(5e9), c.fails[0], 0
			at.Observers = map[string]observe.Client{"b": counting(&total, never), "a": counting(&total, func() bool { asked++; return fails })}
			at.Control = []site.Pod{{UID: "1", Node: "b"}}
			trial := &scenarioTrial{looks: looksAt(at)}
			l := trial.looks
			for i := range 4 {
				if i == 2 && c.comes {
					at.Control = append(at.Control, site.Pod{UID: "2", Node: "a"})
				}
				if i == 3 {
					l.cancel, fails = nil, c.fails[1]
				}
				must.OK(t, l.cost(t.Context(), false))
				fails = false
				total += 10e9
			}
			cpu := l.cpu()
			if got := l.counted(); got != 30 || cpu[record.PartMachine].TotalS() != 60 || asked != c.asked {
				t.Errorf("counted for %v s, in which the machine used %v s; the idle node is asked %d times", got, cpu[record.PartMachine].TotalS(), asked)
			}
			l.host = &observe.Host{Node: 1, Nodes: 2}
			trial.noteOthers(cpu)
			if p := trial.out.Pressure; p == nil || p.BusyRatio != 0.8 {
				t.Errorf("the machine was pressed so much: %+v", p)
			}
			said := strings.Join(trial.evidence.Unmeasured, "; ")
			if c.fails[0] || c.fails[1] {
				if trial.out.Others != nil || !strings.HasPrefix(said, "other processes' use of the machine is unknown: observe node a: ") || !strings.Contains(said, "the line broke") {
					t.Errorf("nobody knows what others used, but %+v; said %q", trial.out.Others, said)
				}
			} else if o := trial.out.Others; o == nil || o.ClusterS != 15 || said != "" {
				t.Errorf("others used %+v, said %q", o, said)
			}
			at.Observers["b"] = counting(&total, func() bool { return true })
			if err := l.cost(t.Context(), false); err == nil || !strings.Contains(err.Error(), "observe node b") {
				t.Errorf("a node of the trial: %v", err)
			}
		})
	}
}

// A node without pods of the trial whose observer hangs does not prevent readings of the others or
// of their memory: the first and the last sample wait for it, and none in between.
func TestLooksBesideIdleNodeThatHangs(t *testing.T) {
	at, err := site.New(twoNodes{}, nil, "r")
	must.OK(t, err)
	synctest.Test(t, func(t *testing.T) {
		answers := 0
		at.Observers = map[string]observe.Client{
			"a": through(func(*http.Request) (*http.Response, error) {
				answers++
				return answerOf(observe.Snapshot{Targets: map[string]observe.Sample{"1": {Memory: &observe.MemorySample{PSSBytes: 7}}}, Machine: observe.MachineSample{AtUnixNS: time.Now().UnixNano()}})
			}),
			"b": through(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			}),
		}
		at.Control = []site.Pod{{UID: "1", Node: "a"}}
		l := looksAt(at)
		l.memory = map[string]int64{}
		for i, wait := range []time.Duration{idleLook, 0, 0, idleLook} {
			if i == 3 {
				l.cancel = nil // the last one
			}
			began := time.Now()
			must.OK(t, l.cost(t.Context(), false))
			if took := time.Since(began); took != wait || i == 3 && l.counted() != idleLook.Seconds() {
				t.Errorf("look %d took %v, and CPU was counted for %v s", i, took, l.counted())
			}
		}
		began := time.Now()
		if err := l.cost(t.Context(), true); err != nil || time.Since(began) != 0 || l.memory[partControlPlane] != 7 || answers != 5 {
			t.Errorf("memory after %v: %v, %v; %d answers", time.Since(began), l.memory, err, answers)
		}
	})
}
