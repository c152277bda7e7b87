package verdict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/internal/note/notetest"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/run/verdict/verdicttest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// aTrial returns a collected trial in which one change per second reaches some simulated sidecars
// and a real one.
func aTrial(proxies, changes int) (record.Trial, Evidence) {
	const ms = int64(time.Millisecond)
	t := record.Trial{
		Schema: record.Schema, ID: "b000-t00", Cell: record.Cell{controlplane.FactorClients: controlplane.ClientsGood},
		Window: record.Window{Start: time.Unix(0, committedAt).UTC(), Seconds: float64(changes) + 1}, Pressure: &record.Pressure{StealRatio: 0.03},
		CPU: map[string]record.CPU{record.PartControl: {UserS: 2}, record.PartSimulator: {UserS: 0.5}, record.PartMachine: {UserS: 4}},
		Control: &record.Control{Proxies: proxies, RealProxies: 1, Istiod: map[string]float64{
			"pilot_pushcontext_init_seconds_count": float64(changes), "pilot_pushcontext_init_seconds_sum": 0.002 * float64(changes),
			"pilot_proxy_queue_time_count": float64(proxies * changes), "pilot_proxy_queue_time_sum": 0.0003,
			"pilot_proxy_convergence_time_count": float64(proxies * changes), "pilot_proxy_convergence_time_sum": 0.0171,
			`pilot_xds_push_time_count{type="cds"}`: float64(proxies * changes), `pilot_xds_push_time_sum{type="cds"}`: 0.013,
			`pilot_xds_push_time_count{type="lds"}`: 3, `pilot_xds_push_time_sum{type="lds"}`: 0.0007,
			`pilot_xds_push_time_count{type="rds"}`: 7, `pilot_xds_push_time_sum{type="rds"}`: 0.0011,
			`pilot_xds_pushes{type="cds"}`: float64((proxies + 1) * changes),
		}},
	}
	e := Evidence{
		Asked:  Asked{Clients: controlplane.ClientsGood, DebounceAfter: 100 * time.Millisecond, EDSDebounce: true, Settle: time.Minute, ScopeNamespace: "mm-0"},
		Clock:  Clock{Ahead: 5 * time.Millisecond, Bound: 20 * time.Microsecond},
		Before: []Replica{{Pod: "istiod-1"}}, After: []Replica{{Pod: "istiod-1"}},
		EndNS:  committedAt + int64(changes+1)*1000*ms,
		Envoys: []xds.MarkerSightings{}, EnvoysEvery: 40 * time.Millisecond,
		AccountBefore: xds.Account{CPU: record.CPU{UserS: 1}},
		AccountAfter: xds.Account{Connected: proxies, CPU: record.CPU{UserS: 1.5}, Lag: record.QuantilesAt(0.5, 90, 0.99, 900), Turn: record.QuantilesAt(0.5, 200, 0.99, 1500),
			LagSource: xds.LagKernel, LagCount: 99, Wire: map[string]record.Wire{"cds": {Responses: int64(proxies * changes), Acks: int64(proxies * changes)}},
			Config: map[string]int64{"cds": 1000}, NamespaceConfig: map[string]map[string]int64{"mm-0": {"cds": 900}}},
		Levers: []record.Check{{Name: "lever-debounce", OK: true, Detail: "as asked"}}, Installed: record.Cell{"debounce_max": "10s"}, Problems: []note.Note{note.Plain("a thing that could not be read")},
	}
	clockAfter := e.Clock
	e.ClockAfter = &clockAfter
	for p := range proxies + 1 {
		e.Audience.Proxies = append(e.Audience.Proxies, Proxy{Type: population.Sidecar, Name: fmt.Sprint("p", p), Namespace: "mm-0"})
	}
	e.Audience.Simulated = proxies
	log := observe.IstiodLog{AheadNS: -3000}
	for i := range changes {
		m := record.Marker{Change: i, Type: "cds", Text: fmt.Sprint("x", i)}
		c := change(i, fmt.Sprint("Service/a/", i), m)
		c.Schema, c.PlannedNS, c.SentNS, c.AnsweredNS = record.Schema, c.CommittedNS-2*ms, c.CommittedNS-ms, c.CommittedNS
		e.Changes, e.Audience.Scopes = append(e.Changes, c), append(e.Audience.Scopes, churn.Scope{Sidecars: true, Namespaces: []string{"mm-0"}})
		us := map[int32]int64{}
		stable := c.CommittedNS + 110*ms - 3000
		log.Add(observe.LogEvent{Kind: observe.LogDebounced, At: stable, Events: 1, Quiet: 100 * time.Millisecond, Delay: 100 * time.Millisecond})
		log.Add(observe.LogEvent{Kind: observe.LogPushing, At: stable + 2*ms, Connected: proxies})
		for p := range int32(proxies) {
			us[p] = 120_000 + int64(p)*700
			log.Add(observe.LogEvent{Kind: observe.LogSent, At: stable + 4*ms, Type: "cds", Node: fmt.Sprintf("p%d.mm-0", p)})
		}
		e.Markers = append(e.Markers, saw(i, i, false, us))
		e.Envoys = append(e.Envoys, xds.MarkerSightings{Change: i, Marker: i, Type: "cds", Columns: xds.Columns{Proxy: []int32{int32(proxies)}, ReceivedNS: []int64{c.CommittedNS + 150*ms}, AckedNS: record.Times{record.Never}}})
	}
	e.Logs = []observe.IstiodLines{log.Lines()}
	return t, e
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	must.OK(t, err)
	return data
}

// judged returns a trial judged by its evidence on disk.
func judged(t testing.TB, trial record.Trial, e Evidence, l verdict.Limits) []byte {
	t.Helper()
	out, events, err := Judge(verdict.Case{Trial: trial, Evidence: encoded(t, e), Limits: l})
	must.OK(t, err)
	return append(encoded(t, out), encoded(t, events)...)
}

func TestATrialIsJudged(t *testing.T) {
	trial, e := aTrial(3, 4)
	before := encoded(t, trial)
	out, events := Of(trial, e, nil)
	for _, c := range out.Validity.Checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
	if !out.Validity.Valid || len(out.Validity.Checks) < 13 {
		t.Errorf("%+v", out.Validity)
	}
	if got := note.Codes(out.Validity.Warnings); got != " log_lines_lost stolen_cpu envoys_read_every" {
		t.Errorf("warnings %q", got)
	}
	notetest.Args(t, out.Validity.Warnings, "stolen_cpu", []any{3})
	notetest.Args(t, out.Validity.Warnings, "envoys_read_every", []any{40})
	if got := out.Validity.Warnings[0].String(); got != "a thing that could not be read" {
		t.Errorf("the first warning is %q", got)
	}
	c := out.Control
	if c.Changes != 4 || c.Committed != 4 || c.Wire["cds"].Responses != 12 || c.ScopeConfig["cds"] != 900 || c.Simulator.UserS != 0.5 || c.SimulatorLag.At(0.99) != 900 || c.Installed["debounce_max"] != "10s" {
		t.Errorf("%+v", c)
	}
	if len(c.Stages) == 0 || c.Unexplained == nil || c.Unexplained.Pairs != 12 {
		t.Errorf("stages %+v, %+v", c.Stages, c.Unexplained)
	}
	if len(events) != 4 || events[0].Expected != 4 || len(events[0].Seen.Proxy) != 4 || events[0].Seen.AppliedUS[3] != 150_000 {
		t.Errorf("%+v", events)
	}
	if after := encoded(t, trial); !bytes.Equal(before, after) {
		t.Error("the record given was changed")
	}
}

// Whatever was observed, the evidence on disk equals it and yields the same verdict each time,
// whatever record was made of it before.
func TestJudgedAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		trial, e := aTrial(rapid.IntRange(1, 4).Draw(rt, "proxies"), rapid.IntRange(1, 5).Draw(rt, "changes"))
		spoil(rt, &trial, &e)
		var kept Evidence
		must.OK(rt, json.Unmarshal(encoded(t, e), &kept))
		if !reflect.DeepEqual(kept, e) {
			rt.Fatalf("seen %+v\nkept %+v", e, kept)
		}
		first, events := Of(trial, e, nil)
		for i := range events {
			events[i].Trial = trial.ID
		}
		then := append(encoded(t, first), encoded(t, events)...)
		if again := judged(t, first, e, nil); !bytes.Equal(then, again) {
			rt.Errorf("judged at once\n%s\nand again\n%s", then, again)
		}
		if again := judged(t, trial, e, nil); !bytes.Equal(then, again) {
			rt.Errorf("judged at once\n%s\nand from the record as it was before\n%s", then, again)
		}
	})
}

// spoil introduces some faults.
func spoil(rt *rapid.T, trial *record.Trial, e *Evidence) {
	wrong := func(name string) bool { return rapid.IntRange(0, 3).Draw(rt, name) == 0 }
	if wrong("refused") {
		e.Changes[0].Error, e.Changes[0].CommittedNS = "refused", 0
	}
	if wrong("driver") {
		e.DriveError = "it stood still"
	}
	if wrong("lacking") {
		e.Markers[0].Proxy, e.Markers[0].ReceivedNS, e.Markers[0].AckedNS = []int32{}, []int64{}, []int64{}
	}
	if wrong("unacknowledged") && len(e.Markers[0].AckedNS) > 0 {
		e.Markers[0].AckedNS[0] = record.Never
	}
	if wrong("restarted") {
		e.After = []Replica{{Pod: "istiod-1", Restarts: 1}}
	}
	if wrong("log") {
		e.Logs = nil
	}
	if wrong("clock") {
		e.ClockAfter = nil
	}
	if wrong("streams") {
		e.AccountAfter.Reconnects, e.StreamError = map[string]int64{"reset": 2, "eof": 1}, "reset by peer"
	}
	if wrong("bad") {
		e.Asked.Clients, e.Misbehaving = controlplane.ClientsNeverAcks, []int32{0}
	}
	if wrong("unread") {
		e.Unread = []record.Check{{Name: "cpu-istiod", Detail: "restarted within the window"}}
	}
	if wrong("traffic") {
		trial.Control.Traffic, e.TrafficWaitUS = &record.Traffic{Requests: 9, Completed: 8, Failed: map[string]int64{}}, 3000.5
	}
	if wrong("nobody needs it") {
		e.Audience.Scopes[0].Namespaces = []string{}
	}
	if wrong("stays") {
		e.Markers[0].Stays = &xds.Columns{Proxy: []int32{0}, ReceivedNS: []int64{committedAt + 7e6}, AckedNS: record.Times{record.Never}}
	}
}

// Every given limit takes effect.
func TestLimitsChangeTheVerdict(t *testing.T) {
	for _, tt := range []struct {
		limits  verdict.Limits
		edit    func(*record.Trial, *Evidence)
		check   string     // that only fails under the limits
		warning *note.Kind // that only appears under the limits
	}{
		{limits: verdict.Limits{"simulator-lag": 0, "simulator-lag-least": 10}, check: "simulator-lag"},
		{limits: verdict.Limits{"simulator-lag-most": 50, "simulator-lag-tiny": 0}, check: "simulator-lag"},
		{limits: verdict.Limits{"driver-schedule": 0, "driver-schedule-least": 0}, edit: spread, check: "driver-schedule"},
		{limits: verdict.Limits{"driver-schedule-moved": 0, "driver-schedule-beside": 0, "driver-schedule-least": 0, "driver-schedule": 1}, edit: spread, check: "driver-schedule"},
		{limits: verdict.Limits{"driver-schedule-moved": 0, "driver-schedule-beside": 0, "driver-schedule-least": 0, "driver-schedule": 1, "driver-schedule-moved-share": 0}, edit: spread, check: "driver-schedule"},
		{limits: verdict.Limits{"commits-noted": 0, "commits-noted-share": 0, "driver-schedule-beside": 0}, edit: func(_ *record.Trial, e *Evidence) { e.Asked.DebounceAfter = 121 * time.Millisecond }, check: "commits-noted"},
		{limits: verdict.Limits{"api-server": 0.0005}, check: "api-server"},
		{limits: verdict.Limits{"pushes": 0, "pushes-share": 0, "pushes-real": 0}, check: "pushes"},
		{limits: verdict.Limits{"simulator-cpu": 0.1}, warning: noteSimulatorCPU},
		{limits: verdict.Limits{"real-sidecars-cpu": 0.001}, edit: func(t *record.Trial, _ *Evidence) { t.CPU[record.PartServerProxy] = record.CPU{UserS: 0.1} }, warning: noteEnvoysCPU},
		{limits: verdict.Limits{"clock-bound": 0.01}, warning: noteClockBound},
		{limits: verdict.Limits{"clock-drift": 0.1}, edit: func(_ *record.Trial, e *Evidence) { e.ClockAfter.Ahead += 500 * time.Microsecond }, warning: noteClockMoved},
		{limits: verdict.Limits{"traffic-wait": 10}, edit: traffic, warning: noteConnectionWait},
		{limits: verdict.Limits{"traffic-log": 0, "traffic-log-least": 0}, edit: traffic, check: "traffic-log"},
		{limits: verdict.Limits{"stage-early": 0}, edit: func(_ *record.Trial, e *Evidence) { e.Logs[0].AheadNS += 11e6 }, warning: noteStageEarly},
		{limits: verdict.Limits{"steal": 0.01}, edit: func(t *record.Trial, _ *Evidence) { t.Pressure.StealRatio = 0.015 }, warning: verdict.NoteStolen},
	} {
		trial, e := aTrial(3, 4)
		if tt.edit != nil {
			tt.edit(&trial, &e)
		}
		for name := range tt.limits {
			if !slices.ContainsFunc(Limits, func(l verdict.Limit) bool { return l.Name == name }) {
				t.Errorf("%s is no limit", name)
			}
		}
		fails := func(l verdict.Limits) (check, warning bool) {
			out, _ := Of(trial, e, l)
			check = slices.ContainsFunc(out.Validity.Checks, func(c record.Check) bool { return c.Name == tt.check && !c.OK })
			return check, tt.warning != nil && tt.warning.In(out.Validity.Warnings)
		}
		if check, warning := fails(nil); check || warning {
			t.Errorf("%v: the same without", tt.limits)
		}
		if check, warning := fails(tt.limits); check != (tt.check != "") || warning != (tt.warning != nil) {
			t.Errorf("%v: check fails %v, warning %v", tt.limits, check, warning)
		}
	}
}

// spread makes one change leave 20 ms late.
func spread(_ *record.Trial, e *Evidence) {
	e.Changes[3].SentNS += 20e6
	e.Changes[3].CommittedNS += 20e6
}

// traffic accounts for all but one attempt.
func traffic(t *record.Trial, e *Evidence) {
	t.Control.Traffic, e.TrafficWaitUS = &record.Traffic{Requests: 100, Completed: 100, Failed: map[string]int64{}, Attempts: 100, Counted: 99}, 50
}

// The changes of an aborted trial are reported as far as known.
func TestSalvage(t *testing.T) {
	trial, e := aTrial(2, 3)
	e.Audience = Audience{}
	out, events := Salvage(trial, e)
	if out.Control.Changes != 3 || out.Control.Committed != 3 || len(events) != 3 || events[0].Expected != 0 || len(out.Validity.Checks) != 1 || !out.Validity.Checks[0].OK {
		t.Errorf("%+v, %+v", out.Validity, events)
	}
}

func FuzzJudge(f *testing.F) {
	_, plain := aTrial(3, 2)
	trial, late := aTrial(5, 6)
	spread(&trial, &late)
	verdicttest.Fuzz(f, Judge, func() []verdict.Case {
		trial, _ := aTrial(3, 2)
		return []verdict.Case{{Trial: trial}}
	}, string(encoded(f, plain)), string(encoded(f, late)), `{"end_unix_ns": 1}`, `{"end_unix_ns": 1, "audience": {"simulated": 1, "proxies": [{}]}}`,
		`{"end_unix_ns": 9223372036854775807, "markers": [{"change": -1, "marker": 7}], "changes": []}`)
}
