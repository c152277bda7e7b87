package findings

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/money"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fourSeconds is a study of 100 requests per second for 4 s: at 1 s one of two workers goes, at 2 s
// all fail for half a second.
const fourSeconds = `
name: four-seconds
question: Does it hold?
story: Two workers, then one.
graph:
  services:
    bar: {replicas: 2, service_time: {mean: 10ms}, concurrency: 4, queue: 10}
load: {to: bar}
settings: {rate: 100, arrival: uniform, retries: "2"}
timeline:
  duration: 4s
  steps:
  - {name: gone, at: 1s, remove: {service: bar, replicas: 1}}
  - {name: sick, at: 2s, for: 500ms, worker: {service: bar, set: {failures: [{share: 50%}]}}}
variants:
  good: {}
  planted: {outlier_detection: off, retries: "off"}
blocks: {min: 2, max: 2}
stop: none
expect: {planted: fail}
assert:
- window("gone").error_share < 0.05
- {expr: error_share == 0.0, until: gone}
`

const ms = int64(time.Millisecond)

// made defines a trial of fourSeconds: a request every 10 ms, answered after 10 ms unless fail says
// how it failed and how long that took.
type made struct {
	fail    func(due int64) (kind string, after int64) // "" for none
	events  func(t *record.Trial) []record.Event
	spoil   func(t *record.Trial)
	proxies bool                   // whether the clients' proxies log too
	late    func(due int64) int64  // how late the client was to send
	slow    func(due int64) int64  // how much longer an answer takes
	host    func(due int64) string // that answers, if not always the first
	// requests, if not 400; the timeline lasts 10 ms for each.
	requests int64
}

var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func stepEvent(t *record.Trial, name, op string, at int64) record.Event {
	zero := t.Scenario.StartNS
	return record.Event{Schema: record.Schema, Trial: t.ID, Kind: "step", Op: op, Object: "bar", Step: name, PlannedNS: zero + at, SentNS: zero + at + 2*ms,
		CommittedNS: zero + at + 5*ms, WatchedNS: zero + at + 40*ms, Proof: "seen by another way"}
}

// inTime returns the steps of fourSeconds, 2 ms late each.
func inTime(t *record.Trial) []record.Event {
	return []record.Event{stepEvent(t, "gone", "remove", 1000*ms), stepEvent(t, "sick", "worker", 2000*ms), stepEvent(t, "sick", "end worker", 2500*ms)}
}

// each makes all trials alike.
func each(m made) func(record.Cell, int) made {
	return func(record.Cell, int) made { return m }
}

// scenarioRun makes a run of a study, with every trial from the function.
func scenarioRun(t *testing.T, text string, blocks int, of func(cell record.Cell, block int) made) record.Run {
	t.Helper()
	s, err := study.Parse([]byte(text), "study.yaml", nil)
	must.OK(t, err)
	plan, err := study.NewPlan(s, 5)
	must.OK(t, err)
	run := record.Run{StudyYAML: s.Marshal(), Header: record.Header{Schema: record.Schema, Kind: string(s.Kind), RunID: "run", Study: s.Name, Started: epoch, Seed: 5, Lab: "local"}}
	files := map[string][]byte{}
	at := epoch
	for block := range blocks {
		for order, slot := range plan.Block(block) {
			cell := plan.Cells[slot.Cell]
			m := of(cell, block)
			if m.requests == 0 {
				m.requests = 400
			}
			trial := record.Trial{Schema: record.Schema, ID: study.TrialID(block, order), Block: block, Order: order, Cell: cell, Repeat: slot.Repeat,
				Started: at, Ended: at.Add(time.Duration(m.requests)*10*time.Millisecond + time.Second), Validity: record.Validity{Valid: true}}
			trial.Scenario = &record.Scenario{StartNS: at.UnixNano(), EndNS: at.UnixNano() + m.requests*10*ms, CountedS: 4,
				Pods: []record.ScenarioPod{{Name: "clients-0", Service: "clients", IP: "10.0.0.9", Sidecar: m.proxies},
					{Name: "bar-0", Service: "bar", IP: "10.0.0.1"}, {Name: "bar-1", Service: "bar", IP: "10.0.0.2", GoneNS: at.UnixNano() + 1000*ms}},
				CPU: map[string]record.CPU{"control_plane": {UserS: 0.3, SystemS: 0.1}, "clients.proxy": {UserS: 0.8}}, Memory: map[string]int64{"control_plane": 100e6}}
			for i := int64(0); i < 40; i++ {
				trial.Scenario.Samples = append(trial.Scenario.Samples, record.ScenarioSample{AtNS: at.UnixNano() + i*100*ms, Ready: map[string]int{"bar": 2 - min(int(i)/11, 1)},
					Ejected: map[string]int{"bar": map[bool]int{true: 1}[i >= 22 && i < 30]}})
			}
			if m.spoil != nil {
				m.spoil(&trial)
			}
			if m.events == nil {
				m.events = inTime
			}
			events := m.events(&trial)
			book := ledger.New(ledger.Options{})
			for i := range m.requests {
				m.request(book, &trial, fmt.Sprintf("mm-%s-0-%d", trial.ID, i), i*10*ms)
			}
			var b bytes.Buffer
			must.OK(t, book.Write(&b))
			files[trial.ID] = b.Bytes()
			run.Trials, run.Events = append(run.Trials, trial), append(run.Events, events...)
			at = trial.Ended
		}
	}
	run.Requests = func(trial string) (io.ReadCloser, error) {
		data, ok := files[trial]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	return run
}

// request adds all log entries of one request.
func (m made) request(book *ledger.Book, t *record.Trial, id string, due int64) {
	zero := t.Scenario.StartNS
	kind, after := "", int64(0)
	if m.fail != nil {
		kind, after = m.fail(due)
	}
	late := int64(0)
	if m.late != nil {
		late = m.late(due)
	}
	client := ledger.ClientEntry{ID: id, IntendedNS: zero + due, SentNS: zero + due + late, DoneNS: zero + due + late + 10*ms, Outcome: ledger.OutcomeOK, Status: 200}
	proxy := ledger.ProxyEntry{ID: id, Side: ledger.SideClient, Service: "clients", Pod: "clients-0", To: "bar", StartNS: zero + due, DurationNS: 10 * ms, Status: 200, GRPC: -1,
		Details: "via_upstream", Host: "10.0.0.1:80", Attempts: 1}
	if m.host != nil {
		proxy.Host = m.host(due)
	}
	if m.slow != nil {
		client.DoneNS += m.slow(due)
	}
	switch kind {
	case "":
		book.AddWorker(ledger.WorkerEntry{ID: id, Service: "bar", Pod: "bar-0", StartNS: zero + due, EndNS: zero + due + 10*ms, Status: 200, Ended: ledger.EndAnswered})
	case ledger.OutcomeUnfinished:
		client.Outcome, client.DoneNS, client.Status = kind, record.Never, 0
	case ledger.OutcomeStatus: // the proxy could not connect
		client.Outcome, client.DoneNS, client.Status = kind, zero+due+after, 503
		proxy.Status, proxy.Flags, proxy.Details, proxy.Host, proxy.Attempts, proxy.DurationNS = 503, "URX,UF", "upstream_reset_before_response_started", "10.0.0.2:80", 3, after
	default:
		client.Outcome, client.DoneNS, client.Status = kind, zero+due+after, 0
		proxy.Status, proxy.Flags, proxy.Details, proxy.DurationNS = 0, "DC", "downstream_remote_disconnect", after
	}
	book.AddClient(client)
	if m.proxies {
		book.AddProxy(proxy)
	}
}

// scenarioOf returns the result of a variant.
func scenarioOf(t *testing.T, f record.Findings, variant string) *record.ScenarioSummary {
	t.Helper()
	for _, c := range f.Cells {
		if c.Cell[study.FactorVariant] == variant {
			if c.Scenario == nil {
				t.Fatalf("cell %s has no summary", variant)
			}
			return c.Scenario
		}
	}
	t.Fatalf("no cell %s", variant)
	return nil
}

// without omits lines of the request logs that contain some text.
func without(requests func(string) (io.ReadCloser, error), text string) func(string) (io.ReadCloser, error) {
	return func(trial string) (io.ReadCloser, error) {
		r, err := requests(trial)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		var out []byte
		for line := range bytes.Lines(data) {
			if !bytes.Contains(line, []byte(text)) {
				out = append(out, line...)
			}
		}
		return io.NopCloser(bytes.NewReader(out)), err
	}
}

func analyze(t *testing.T, run record.Run) record.Findings {
	t.Helper()
	f, err := (analysis.Kinds{Kind()}).Analyze(run)
	must.OK(t, err)
	return f
}

// idle returns the findings of a run without steps.
func idle(t *testing.T, text string, blocks int, spoil func(*record.Trial)) record.Findings {
	t.Helper()
	return analyze(t, scenarioRun(t, text, blocks, each(made{events: func(*record.Trial) []record.Event { return nil }, spoil: spoil})))
}

func get(t *testing.T, f record.Findings, name string, cell record.Cell) record.Finding {
	t.Helper()
	i := slices.IndexFunc(f.Findings, func(x record.Finding) bool { return x.Name == name && x.Against == nil && x.Cell.Key() == cell.Key() })
	if i < 0 {
		t.Fatalf("no finding %s at %s", name, cell.Key())
	}
	return f.Findings[i]
}

// Every finding defined as a number per trial has a measure that computes it.
func TestFindingsHaveSources(t *testing.T) {
	mesh := money.Published()
	mesh.Proxies, mesh.GBMonth = 10, 1
	s := &study.Study{Kind: resilience.Kind, Measures: resilience.Kind.Measures(), Money: &mesh, Section: &resilience.Scenario{}}
	var computed []string
	for _, m := range Kind().Measures(s) {
		if slices.Contains(computed, m.Name) {
			t.Errorf("%s is computed twice", m.Name)
		}
		computed = append(computed, m.Name)
	}
	for _, d := range resilience.Kind.Findings().All() {
		if d.Source == finding.FromTrials && !d.Difference && !slices.Contains(computed, d.Name) {
			t.Errorf("no measure computes %s", d.Name)
		}
	}
}
