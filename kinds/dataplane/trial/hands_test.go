package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	workercontrol "github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// twoHands is a plan of a cell with two generators.
const twoHands = `
name: two
question: Which?
mesh: none
settings: {sidecars: none, rate: 200, connections: 5, generators: 2}
factors: {arrival: [poisson, uniform, burst]}
baseline: {arrival: poisson}
warmup: {min: 0s, max: 20s}
window: 500ms
interval: 100ms
`

// served starts a server that lives as long as the test.
func served(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// counting answers for a worker.
func counting(w http.ResponseWriter, _ *http.Request) { jsonhttp.Answer(w, workercontrol.Counters{}) }

// onTime serves a load role whose clock is this machine's.
func onTime(ctx context.Context) http.Handler { return withClock(ctx, new(atomic.Int64)) }

// withClock serves a load role whose clock leads this machine's by that many nanoseconds.
func withClock(ctx context.Context, ahead *atomic.Int64) http.Handler {
	role := loadcontrol.NewServer(ctx, "v").Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/clock" {
			role.ServeHTTP(w, r)
			return
		}
		jsonhttp.Answer(w, map[string]int64{"unix_ns": time.Now().UnixNano() + ahead.Load()})
	})
}

// handsAt returns a trial of the plan's cell number i whose generators answer at these addresses,
// each on its own node.
func handsAt(t *testing.T, plan *study.Plan, i int, addresses ...string) *trialRun {
	t.Helper()
	target := served(t, http.HandlerFunc(counting)) // late generators get the schedule again, and the counters are read before that
	d := &deployed{}
	trial := &trialRun{d: d, o: &runner.Options{Study: plan.Study, Mesh: none.Mesh{}}, cell: plan.Cells[i], server: &workerRole{pod: site.Pod{Node: "node-0"}, api: workercontrol.Client{BaseURL: target.URL}}}
	var roles []*loadRole
	for k, address := range addresses {
		roles = append(roles, &loadRole{pod: site.Pod{Name: fmt.Sprintf("client-%d", k), Node: fmt.Sprintf("node-%d", k)}, api: loadcontrol.NewClient(address, nil)})
	}
	must.OK(t, trial.setHands(roles))
	var err error
	trial.spec, err = loadSpec(plan.Study, trial.cell, target.URL, 7)
	must.OK(t, err)
	trial.spec.DrainS = 30
	return trial
}

// measured runs a trial of intervals [from, to) as measure does, and judges it.
func (t *trialRun) measured(ctx context.Context, from, to int) (record.Trial, error) {
	out := record.Trial{Cell: t.cell, Warmup: record.Warmup{Steady: true}}
	if err := t.endAfter(ctx, to-1); err != nil {
		return out, err
	}
	result, hands, err := t.result(ctx, from, to)
	if err != nil {
		return out, err
	}
	w, err := result.Window(from, to)
	if err != nil {
		return out, err
	}
	out.Load, out.Hands, out.Window = w.Record(t.spec.Rate), hands, record.Window{Seconds: float64(w.DurationNS) / 1e9}
	seen := verdict.Evidence{Loops: len(hands), Connections: t.spec.Connections, Planned: t.spec.Planned(w.StartNS, w.StartNS+w.DurationNS),
		Edges: []verdict.Edge{{Node: "n"}}, Mesh: mesh.Evidence{Cell: t.cell, Worker: map[string]float64{}}}
	out.Validity = verdict.Of(out, seen, nil, func(mesh.Evidence) []record.Check { return nil })
	return out, nil
}

// failed returns the checks about hands that a trial fails.
func failed(v record.Validity) string {
	var out []string
	for _, c := range v.Checks {
		if !c.OK && strings.HasPrefix(c.Name, "hands") {
			out = append(out, c.Name)
		}
	}
	return strings.Join(out, " ")
}

// Two generators send one schedule from one instant on, although one clock is 5 ms ahead. A clock
// that is set in the meantime makes the trial invalid.
func TestHandsTogether(t *testing.T) {
	plan := studytest.Plan(t, twoHands)
	for i, cell := range plan.Cells {
		for _, set := range []time.Duration{0, 5 * time.Millisecond} {
			ctx := t.Context()
			var ahead atomic.Int64
			ahead.Store(int64(5 * time.Millisecond))
			trial := handsAt(t, plan, i, served(t, onTime(ctx)).URL, served(t, withClock(ctx, &ahead)).URL)
			must.OK(t, trial.measureSkew(ctx))
			before := trial.hands[1].before
			if off := before.Ahead - 5*time.Millisecond; off.Abs() > before.Bound || trial.hands[0].before != (hands.Clock{}) {
				t.Errorf("the clock is %v ahead, within %v", before.Ahead, before.Bound)
			}
			must.OK(t, trial.start(ctx, trial.spec))
			if apart := time.Duration(trial.hands[1].started.StartUnixNS - trial.started.StartUnixNS); apart != before.Ahead {
				t.Errorf("by their own clocks they began %v apart, and these differ by %v", apart, before.Ahead)
			}
			ended, err := trial.intervals(ctx, 0)
			if err != nil || len(ended) > 0 && ended[0].Scheduled > trial.spec.Planned(0, 1e8) {
				t.Errorf("%+v, %v", ended, err)
			}
			ahead.Add(int64(set))
			out, err := trial.measured(ctx, 1, 6)
			must.OK(t, err)
			sum := int64(0)
			for _, h := range out.Hands {
				sum += h.Scheduled
			}
			if want := trial.spec.Planned(1e8, 6e8); out.Load.Scheduled != want || sum != want || out.Hands[0].Connections+out.Hands[1].Connections != 5 {
				t.Errorf("%s: %d requests of %d, %+v", cell[study.FactorArrival], out.Load.Scheduled, want, out.Hands)
			}
			after := out.Hands[1].After
			// The precision of clock comparisons depends on how busy this machine is.
			known := after.ErrorUS+out.Hands[1].Before.ErrorUS < 500
			if got := failed(out.Validity); known && (got == "hands-apart") != (set > 0) || got != "" && got != "hands-apart" {
				t.Errorf("%s: a clock was set by %v: %q; %+v", cell[study.FactorArrival], set, got, out.Hands[1])
			}
		}
	}
}

// readAlone serves a load role that answers nothing else once its record was requested, like one
// behind a port-forward that is full of a record.
func readAlone(role http.Handler) http.Handler {
	var reading atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/result") {
			reading.Store(true)
		} else if reading.Load() {
			jsonhttp.Refuse(w, http.StatusInternalServerError, errors.New("the line is full of a record that nobody reads"))
			return
		}
		role.ServeHTTP(w, r)
	})
}

// A generator is not queried while its record is being read, which would block forever.
func TestHandsAreReadAlone(t *testing.T) {
	a, b := served(t, readAlone(onTime(t.Context()))), served(t, readAlone(onTime(t.Context())))
	trial := handsAt(t, studytest.Plan(t, twoHands), 0, a.URL, b.URL)
	must.OK(t, trial.measureSkew(t.Context()))
	must.OK(t, trial.start(t.Context(), trial.spec))
	if out, err := trial.measured(t.Context(), 1, 6); err != nil || len(out.Hands) != 2 || out.Hands[1].After.ErrorUS == 0 {
		t.Errorf("%+v, %v", out.Hands, err)
	}
}

// A lost generator makes the trial fail: what the others sent does not pass for all of it.
func TestAHandIsLost(t *testing.T) {
	plan := studytest.Plan(t, twoHands)
	for _, how := range []string{"ends", "is gone"} {
		lost, lose := context.WithCancel(t.Context())
		a, b := served(t, onTime(t.Context())), served(t, onTime(lost))
		trial := handsAt(t, plan, 0, a.URL, b.URL)
		must.OK(t, trial.start(t.Context(), trial.spec))
		other := errors.New("observe node n: gone")
		if err := trial.asLost(t.Context(), other); err != other {
			t.Errorf("all are there: %v", err)
		}
		lose()
		if how == "is gone" {
			b.CloseClientConnections()
			b.Close()
			if err := trial.asLost(t.Context(), other); !errors.Is(err, hands.ErrLost) || !errors.Is(err, other) {
				t.Errorf("an observer noticed it: %v", err)
			}
		}
		if _, err := trial.measured(t.Context(), 1, 6); !errors.Is(err, hands.ErrLost) || !strings.Contains(err.Error(), "client-1") {
			t.Errorf("%s: %v", how, err)
		}
		trial.stop(t.Context())
		if _, err := loadcontrol.NewClient(a.URL, nil).Start(t.Context(), trial.spec); err != nil {
			t.Errorf("the other one still runs: %v", err)
		}
	}
}

// A generator that learns of the end of the window too late ends at once. It is not lost, and the
// trial says what went wrong.
func TestAHandIsToldTooLate(t *testing.T) {
	late := onTime(t.Context())
	a := served(t, onTime(t.Context()))
	b := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stop-after" { // like one that arrives after the window: it ends the schedule at once
			r.URL.Path = "/v1/stop"
		}
		late.ServeHTTP(w, r)
	}))
	trial := handsAt(t, studytest.Plan(t, twoHands), 0, a.URL, b.URL)
	must.OK(t, trial.start(t.Context(), trial.spec))
	_, err := trial.measured(t.Context(), 1, 60) // far ahead: the machine may stall
	if err == nil || errors.Is(err, hands.ErrLost) || !strings.Contains(err.Error(), "load pod client-1 ended") || !strings.Contains(err.Error(), "received its stop time, 6s") {
		t.Errorf("%v", err)
	}
}

// Generators that a trial could not stop because of broken connections are stopped when they are
// found again, so that the next trial can start.
func TestLoadsThatWereLeftAreEnded(t *testing.T) {
	plan := studytest.Plan(t, twoHands)
	var broken atomic.Bool
	line := func() http.Handler {
		role := onTime(t.Context())
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				panic(http.ErrAbortHandler)
			}
			role.ServeHTTP(w, r)
		})
	}
	a, b := served(t, line()), served(t, line())
	trial := handsAt(t, plan, 0, a.URL, b.URL)
	must.OK(t, trial.start(t.Context(), trial.spec))
	broken.Store(true)
	if _, err := trial.intervals(t.Context(), 0); !errors.Is(err, hands.ErrLost) {
		t.Errorf("the lines are broken: %v", err)
	}
	trial.stop(t.Context())
	broken.Store(false)
	next := handsAt(t, plan, 0, a.URL, b.URL)
	next.d.loads = map[dataplane.Variant][]*loadRole{{}: {next.hands[0].loadRole, next.hands[1].loadRole}}
	must.OK(t, next.d.endLoads(t.Context()))
	if err := next.start(t.Context(), next.spec); err != nil {
		t.Errorf("the next trial: %v", err)
	}
	next.stop(t.Context())
}

// A start that is too late for one is repeated for all.
func TestHandsStartLate(t *testing.T) {
	plan := studytest.Plan(t, twoHands)
	a := served(t, onTime(t.Context()))
	starts := 0
	role := onTime(t.Context())
	b := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/start" {
			if starts++; starts == 1 {
				time.Sleep(startAhead + 50*time.Millisecond)
			}
		}
		role.ServeHTTP(w, r)
	}))
	trial := handsAt(t, plan, 0, a.URL, b.URL)
	read := int64(0)
	worker := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		read++
		jsonhttp.Answer(w, workercontrol.Counters{UnixNS: read})
	}))
	trial.server.api = workercontrol.Client{BaseURL: worker.URL}
	must.OK(t, trial.start(t.Context(), trial.spec))
	if again := int64(starts - 1); read != again || trial.before.worker.UnixNS != again {
		t.Errorf("the counters were read %d times for %d starts", read, starts)
	}
	if starts < 2 || trial.d.ahead < 2*startAhead {
		t.Errorf("%d starts, told %v ahead", starts, trial.d.ahead)
	}
	if trial.hands[0].started.StartUnixNS != trial.hands[1].started.StartUnixNS {
		t.Error("they began at different times")
	}
	trial.stop(t.Context())
}

// Two pods on one node have one clock, whatever the exchanges say.
func TestHandsOnOneNode(t *testing.T) {
	var ahead atomic.Int64
	ahead.Store(int64(time.Second))
	a, b := served(t, onTime(t.Context())), served(t, withClock(t.Context(), &ahead))
	trial := handsAt(t, studytest.Plan(t, twoHands), 0, a.URL, b.URL)
	trial.hands[1].pod.Node = trial.hands[0].pod.Node
	if err := trial.measureSkew(t.Context()); err != nil || trial.hands[1].before != (hands.Clock{}) {
		t.Errorf("%+v, %v", trial.hands[1].before, err)
	}

	// One of those on another node is queried, for all of them.
	silent := served(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s of the second on its node", r.URL) }))
	trial = handsAt(t, studytest.Plan(t, twoHands), 0, a.URL, b.URL)
	trial.hands = append(trial.hands, &hand{loadRole: &loadRole{pod: site.Pod{Name: "client-2", Node: trial.hands[1].pod.Node}, api: loadcontrol.NewClient(silent.URL, nil)}})
	if err := trial.measureSkew(t.Context()); err != nil || trial.hands[2].before != trial.hands[1].before || trial.hands[2].before.Ahead < time.Second/2 {
		t.Errorf("%+v, %+v, %v", trial.hands[1].before, trial.hands[2].before, err)
	}
}

// The clients' cost covers all hands: their generators, their proxies, and the proxies' counters.
func TestCostsOfHands(t *testing.T) {
	cpu := func(ns uint64) observe.Sample { return observe.Sample{CPU: observe.CPUSample{TotalNS: ns, UserNS: ns}} }
	net := func(ns uint64, opened uint64) observe.Sample {
		s := cpu(ns)
		s.Net = &observe.NetSample{Established: 2, ActiveOpens: opened}
		return s
	}
	names := []string{record.PartGenerator, record.OfHand(record.PartGenerator, 1), record.PartClientProxy, record.OfHand(record.PartClientProxy, 1), record.PartWorker, record.PartWaypoint}
	trial := &trialRun{d: &deployed{Site: &site.Site{}}, o: &runner.Options{}, client: &loadRole{pod: site.Pod{Node: "a"}}, server: &workerRole{pod: site.Pod{Node: "a"}},
		targets: map[string][]observe.Target{"a": {}}}
	before, after := observe.Snapshot{Targets: map[string]observe.Sample{}}, observe.Snapshot{Targets: map[string]observe.Sample{}}
	for i, name := range names {
		trial.targets["a"] = append(trial.targets["a"], observe.Target{Name: name})
		before.Targets[name], after.Targets[name] = net(0, 1), net(uint64(i+1)*1e9, uint64(i+2))
	}
	out := &record.Trial{}
	trial.costs(out, observed{sampled: map[string]site.Shots{"a": {Before: before, After: after}}})
	for part, want := range map[string]float64{record.PartGenerator: 3, record.PartClientProxy: 7, record.PartWorker: 5} {
		if got := out.CPU[part].TotalS(); got != want {
			t.Errorf("%s used %v s, want %v", part, got, want)
		}
	}
	if c := out.Connections[record.PartGenerator]; c.Established != 4 || c.Opened != 3 || out.Connections[record.PartWaypoint].Opened != 6 || len(out.Connections) != 3 {
		t.Errorf("connections %+v", out.Connections)
	}

	stats := func(v float64) observe.ProxyStats {
		return observe.ProxyStats{Taken: time.Unix(100, 0), Uptime: time.Minute, Counters: map[string]float64{"c": v}, Gauges: map[string]float64{"threads": 2}}
	}
	first, second := record.PartClientProxy, record.OfHand(record.PartClientProxy, 1)
	read := func(a, b float64) counters {
		return counters{proxies: map[string]observe.ProxyStats{first: stats(a), second: stats(b)}}
	}
	plan := studytest.Plan(t, twoHands)
	trial.o, trial.cell = &runner.Options{Study: plan.Study, Mesh: none.Mesh{}}, plan.Cells[0]
	e := trial.evidence(out, &load.Result{}, read(1, 10), read(4, 50))
	p := e.Read(first)
	if p == nil || !maps.Equal(p.Rise, map[string]float64{"c": 43}) || p.Total["c"] != 4 || p.Total["threads"] != 2 || p.Of != 2 || len(e.Proxies) != 1 {
		t.Errorf("%+v", e.Proxies)
	}
	// A restarted proxy says nothing about the total passed on.
	trial.seen = verdict.Evidence{}
	e = trial.evidence(out, &load.Result{}, read(1, 50), read(4, 10))
	if unread := trial.seen.Unread; e.Read(first) != nil || !slices.ContainsFunc(unread, func(c record.Check) bool { return c.Name == "counters-client_proxy" }) {
		t.Errorf("%+v, %+v", e.Proxies, unread)
	}
}

// As many load pods are deployed as the cells need, and each trial has its own.
func TestPodsOfHands(t *testing.T) {
	plan := studytest.Plan(t, twoHands, "generators=[1,3]", "connections=[3,5]")
	for name, d := range deploymentsOf(t, plan, none.Mesh{}) {
		want := int32(1)
		if name == "client-plain" {
			want = 3
		}
		if *d.Spec.Replicas != want && name != "client-plain-twin" {
			t.Errorf("%s has %d pods, want %d", name, *d.Spec.Replicas, want)
		}
	}
	if err := Kind.Check(plan); err != nil {
		t.Error(err)
	}
	few := studytest.Plan(t, twoHands, "generators=[1,3]", "connections=[2,5]")
	if err := Kind.Check(few); err == nil || !strings.Contains(err.Error(), "generators 3") || !strings.Contains(err.Error(), "2 connections") {
		t.Errorf("three generators share two connections: %v", err)
	}
	trial := &trialRun{d: &deployed{}, cell: plan.Cells[len(plan.Cells)-1], server: &workerRole{}}
	if err := trial.setHands(make([]*loadRole, 2)); err == nil {
		t.Error("a trial of three generators has two")
	}
}

// The generator reports its start by its clock at that time. If the clock was set after the
// comparison, observers are asked for the instants that were meant.
func TestClockSetBeforeTheStart(t *testing.T) {
	tr := &trialRun{skew: map[string]time.Duration{"same": 0, "other": 3 * time.Second}, clockAhead: time.Second}
	tr.clockSet(0)
	if tr.skew["same"] != 0 || tr.skew["other"] != 3*time.Second || tr.clockAhead != time.Second {
		t.Errorf("nobody set a clock: %v", tr.skew)
	}
	tr.clockSet(time.Minute)
	// It began at 10:01:00 by the new clock, which was 10:00:00 by the one used in the comparison
	// with the observers.
	if tr.skew["same"] != -time.Minute || tr.skew["other"] != 3*time.Second-time.Minute || tr.clockAhead != time.Second+time.Minute {
		t.Errorf("%v, %v ahead", tr.skew, tr.clockAhead)
	}
	w := record.Window{Start: time.Unix(1000, 0).Add(time.Minute), Seconds: 2}
	at := func(s int64) observe.Snapshot { return observe.Snapshot{EndNS: s * 1e9} }
	got := tr.edges(w, map[string]site.Shots{"same": {Before: at(1000), After: at(1002)}, "other": {Before: at(1003), After: at(1005)}})
	for _, e := range got {
		if e.Before != 0 || e.After != 0 {
			t.Errorf("%+v", e)
		}
	}
}
