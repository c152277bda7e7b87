package findings

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

const threadsStudy = `
name: threads
question: What do threads do?
settings: {rate: 1000}
factors: {sidecars: [none, both]}
blocks: {min: 4, max: 6}
stop: none
measures: [cpu, pressure, threads]
`

// proxyThreads returns a proxy's threads in a window of two seconds: the shares of time on a CPU
// and waiting for one, for its workers and the main thread.
func proxyThreads(main float64, workers ...[2]float64) record.Threads {
	const seconds = 2
	th := record.Threads{Seconds: seconds}
	add := func(process string, pid, tid int, name string, busy, wait float64) {
		th.Threads = append(th.Threads, record.Thread{Process: process, PID: pid, TID: tid, Name: name, WaitS: wait * seconds,
			CPU: record.CPU{UserS: 0.75 * busy * seconds, SystemS: 0.25 * busy * seconds}, Voluntary: 200, Involuntary: 20})
		th.CPUS += busy * seconds
	}
	add("pilot-agent", 1, 1, "pilot-agent", 0.01, 0)
	add("pilot-agent", 1, 5, "pilot-agent", 0.01, 0)
	add("envoy", 20, 20, "envoy", main, 0)
	add("envoy", 20, 21, "dog:main_thread", 0.001, 0)
	for i, w := range workers {
		add("envoy", 20, 30+i, "wrk:worker_"+string(rune('0'+i)), w[0], w[1])
		accepted := int64(12 - 8*i)
		th.Threads[len(th.Threads)-1].Accepted = &accepted
	}
	return th
}

func TestWhatHoldsAProxyBack(t *testing.T) {
	limited := func(th record.Threads, quota float64, throttled int64) record.Threads {
		th.QuotaCores, th.Periods, th.Throttled = quota, 20, throttled
		return th
	}
	both := func(k *note.Kind, ran string, more ...any) note.Note {
		return k.Of(append([]any{"both workers", "the client's proxy", ran}, more...)...)
	}
	for _, c := range []struct {
		name    string
		threads record.Threads
		busy    float64 // of the machine
		limit   string
		says    note.Note
	}{
		{"nothing", proxyThreads(0.02, [2]float64{0.5, 0.02}, [2]float64{0.45, 0.02}), 0.5, "", note.Note{}},
		{"both workers full", proxyThreads(0.02, [2]float64{0.95, 0.02}, [2]float64{0.93, 0.03}), 0.6, record.LimitConcurrency,
			both(noteConcurrency, "95% and 93%", nil, nil, 2, "60%")},
		{"full and throttled", limited(proxyThreads(0.02, [2]float64{0.95, 0}, [2]float64{0.95, 0}), 2, 6), 0.6, record.LimitConcurrency,
			both(noteConcurrency, "95% and 95%", "30%", "2.0", 2, "60%")},
		{"one worker", proxyThreads(0.02, [2]float64{0.9, 0}), 0.6, record.LimitConcurrency,
			noteConcurrency.Of("the one worker", "the client's proxy", "90%", nil, nil, 1, "60%")},
		{"full, and the machine too", proxyThreads(0.02, [2]float64{0.95, 0.02}, [2]float64{0.93, 0.03}), 0.99, record.LimitMachine,
			both(noteFullMachine, "95% and 93%", nil, nil, "99%")},
		{"throttled", limited(proxyThreads(0.02, [2]float64{0.25, 0.3}, [2]float64{0.24, 0.3}), 0.5, 8), 0.5, record.LimitCPU,
			both(noteCPULimit, "25% and 24%", "40%", "0.50", "50%")},
		{"hardly throttled", limited(proxyThreads(0.02, [2]float64{0.2, 0}), 0.5, 0), 0.5, "", note.Note{}},
		{"uneven", proxyThreads(0.02, [2]float64{0.95, 0.02}, [2]float64{0.2, 0}), 0.6, record.LimitImbalance,
			both(noteImbalance, "95% and 20%", nil, nil, "12 and 4", "60%")},
		{"the machine is full of others", proxyThreads(0.02, [2]float64{0.5, 0.3}, [2]float64{0.5, 0.3}), 0.97, record.LimitMachine,
			both(noteRunQueue, "50% and 50%", nil, nil, "30% and 30%", "97%")},
		{"waiting on a machine with room", proxyThreads(0.02, [2]float64{0.5, 0.3}, [2]float64{0.5, 0.3}), 0.6, "", note.Note{}},
		{"main thread", proxyThreads(0.9, [2]float64{0.1, 0}), 0.6, record.LimitMain, noteMainThread.Of("the client's proxy", "90%", "60%")},
	} {
		s := threadsSummary(record.PartClientProxy, 1, []record.Threads{c.threads}, &record.Pressure{BusyRatio: c.busy})
		if s.Limit != c.limit || !reflect.DeepEqual(s.Says, c.says) {
			t.Errorf("%s: %q, %q; want %q, %q", c.name, s.Limit, s.Says, c.limit, c.says)
		}
	}
}

func TestThreadRows(t *testing.T) {
	th := proxyThreads(0.03, [2]float64{0.6, 0.1}, [2]float64{0.2, 0.05})
	th.UnaccountedS = 0.004
	s := threadsSummary(record.PartServerProxy, 1, []record.Threads{th, th}, nil)
	var names []string
	for _, r := range s.Rows {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "worker_0 worker_1 main others pilot-agent" {
		t.Fatalf("rows %s", got)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	w := s.Rows[0]
	if !w.Worker || !near(w.UserRatio, 0.45) || !near(w.SystemRatio, 0.15) || !near(w.WaitRatio, 0.1) || !near(w.InvoluntaryPerS, 10) || *w.Accepted != 12 {
		t.Errorf("worker 0 %+v", w)
	}
	if agent := s.Rows[4]; agent.Threads != 2 || !near(agent.BusyRatio(), 0.02) || agent.Accepted != nil {
		t.Errorf("agent %+v", agent)
	}
	if !near(s.Cores, th.CPUS/2) || !near(s.ImbalanceRatio, 0.5) || !near(s.DisagreementRatio, 0.004/th.CPUS) {
		t.Errorf("%+v", s)
	}
}

// A run's findings about threads have intervals, and those about limits have the evidence in words.
func TestThreadFindings(t *testing.T) {
	w := analysistest.Quiet()
	w.Spoil = func(t *record.Trial) {
		t.Pressure = &record.Pressure{BusyRatio: 0.6}
		if !study.HasClientProxy(t.Cell) {
			return
		}
		shift := 0.01 * float64(t.Block)
		t.Threads = map[string]record.Threads{
			record.PartClientProxy: proxyThreads(0.02, [2]float64{0.90 + shift, 0.02}, [2]float64{0.88 + shift, 0.02}),
			record.PartServerProxy: proxyThreads(0.02, [2]float64{0.5, 0.02}, [2]float64{0.3, 0.02}),
		}
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, threadsStudy, 4, 3, w))
	both := record.Cell{"sidecars": "both"}
	x := analysistest.Get(t, f, "worker_busiest_client_proxy", both)
	if math.Abs(x.Estimate-0.915) > 1e-9 || !(x.Low < 0.915 && x.High > 0.915 && x.Low > 0.85) || x.Unit != "ratio" || x.Verdict != record.VerdictMeasured {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, f, "worker_imbalance_server_proxy", both); math.Abs(x.Estimate-0.25) > 1e-9 {
		t.Errorf("imbalance %+v", x)
	}
	if x := analysistest.Get(t, f, "limit_client_proxy", both); math.Abs(x.Estimate-0.915) > 1e-9 || x.Blocks != 4 || len(x.Warnings) != 1 || !x.Warnings[0].Is(noteConcurrency) {
		t.Errorf("%+v", x)
	}
	for _, x := range f.Findings {
		if x.Name == "limit_server_proxy" || strings.HasPrefix(x.Name, "throttled_") {
			t.Errorf("%+v", x)
		}
	}
	for _, c := range f.Cells {
		if got := len(c.Threads); (c.Cell["sidecars"] == "both") != (got == 2) {
			t.Errorf("%s has threads of %d parts", c.Label, got)
		}
	}
}

// Four proxies that are hardly busy are not one that is full: the busiest of several is reported,
// by name.
func TestThreadsOfHands(t *testing.T) {
	w := analysistest.Quiet()
	share := 0.22
	w.Spoil = func(t *record.Trial) {
		if !study.HasClientProxy(t.Cell) {
			return
		}
		t.Hands, t.Threads = make([]record.Hand, 4), map[string]record.Threads{}
		for i := range t.Hands {
			th := proxyThreads(0.02, [2]float64{share + 0.01*float64(i), 0.02}, [2]float64{share, 0.02})
			th.QuotaCores, th.Periods = 2, 20
			t.Threads[record.OfHand(record.PartClientProxy, i)] = th
		}
	}
	both := record.Cell{"sidecars": "both"}
	of := func() (record.Findings, record.ThreadsSummary) {
		f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, threadsStudy, 4, 3, w))
		for _, c := range f.Cells {
			if c.Cell["sidecars"] == "both" {
				return f, c.Threads[record.PartClientProxy]
			}
		}
		t.Fatal("no such cell")
		return f, record.ThreadsSummary{}
	}
	f, s := of()
	if s.Limit != "" || s.QuotaCores != 2 || math.Abs(s.Rows[0].BusyRatio()-0.25) > 1e-9 || *s.Rows[0].Accepted != 12 {
		t.Errorf("%+v", s)
	}
	if x := analysistest.Get(t, f, "worker_busiest_client_proxy", both); math.Abs(x.Estimate-0.25) > 1e-9 {
		t.Errorf("%+v", x)
	}
	share = 0.88
	if _, s = of(); s.Limit != record.LimitConcurrency || !reflect.DeepEqual(s.Says, noteConcurrency.Of("both workers", "the client's proxy, the busiest of 4,", "91% and 88%", nil, nil, 2, nil)) {
		t.Errorf("%q: %s", s.Limit, s.Says)
	}
}
