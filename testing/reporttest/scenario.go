package reporttest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const TenServersText = `
name: ten-servers
question: Does a service of ten servers keep answering while they go, get sick and meet a sale?
story: A shop front calls ten servers of stock. One server goes, another answers every request with an error for four seconds, and then three times as many customers come.
graph:
  services:
    front: {replicas: 2, calls: [{to: stock, timeout: 1s}, {to: prices}]}
    stock: {replicas: 10, service_time: {mean: 60ms}, concurrency: 3, queue: 20}
    prices: {replicas: 3, service_time: {mean: 5ms}}
load: {to: front, clients: 2}
settings: {rate: 100, retries: "2", outlier_detection: "errors=5 interval=1s ejection=3s max=50%"}
timeline:
  duration: 20s
  steps:
  - {name: gone, at: 4s, remove: {service: stock, replicas: 1}}
  - {name: sick, at: 8s, for: 4s, worker: {service: stock, pick: 1, set: {failures: [{share: 100%, status: 503}]}}}
  - {name: sale, at: 15s, for: 3s, load: {rate: 300}}
variants:
  tuned: {}
  no-detection: {outlier_detection: off}
  retries-off: {retries: off, outlier_detection: off}
baseline: {variant: tuned}
blocks: {min: 2, max: 2}
stop: none
expect: {no-detection: fail, retries-off: fail}
assert:
- window("gone").error_share < 0.01
- {expr: error_share < 0.02, after: sick, within: 2s, for: 1s}
- {expr: ejected >= 1, after: sick, within: 3s}
- {expr: error_share == 0.0, until: gone}
- ledger.reconciled
`

const milli = int64(time.Millisecond)

// shop generates what all stations wrote in a trial of TenServersText.
type shop struct {
	r          *rand.Rand
	book       *ledger.Book
	zero       int64
	trial      string
	tries      int // maximum number of attempts of a proxy
	detects    bool
	noise      float64
	sickUntil  int64
	phantomEnd int64
}

// Resilience returns what analysis finds in a synthetic run of a study.
func Resilience(t *testing.T, spoil func(*record.Trial, []record.Event)) record.Findings {
	t.Helper()
	files := map[string][]byte{}
	at := analysistest.Began
	random := rand.New(rand.NewPCG(3, 4))
	run := MadeUp(analysistest.PlanOf(t, TenServersText, 7), 2, func(run *record.Run, trial *record.Trial, _ *rand.Rand) {
		trial.Started, trial.Ended, trial.Window = at, at.Add(40*time.Second), record.Window{}
		m := &shop{r: random, book: ledger.New(ledger.Options{}), zero: at.UnixNano(), trial: trial.ID, tries: 3, detects: trial.Cell[study.FactorOutlierDetection] != study.LevelOff,
			noise: 1 + 0.02*random.NormFloat64(), phantomEnd: 5600 * milli}
		if trial.Cell[study.FactorRetries] == study.LevelOff {
			m.tries = 1
		}
		if m.sickUntil = 12000 * milli; m.detects {
			m.sickUntil = 8900 * milli
		}
		m.fill(trial)
		events := m.events()
		if spoil != nil {
			spoil(trial, events)
		}
		var b bytes.Buffer
		must.OK(t, m.book.Write(&b))
		files[trial.ID] = b.Bytes()
		run.Events = append(run.Events, events...)
		at = trial.Ended
	})
	run.Hist, run.Header.Components = nil, []record.Component{{Name: "istiod", Version: "1.31.0"}}
	run.Requests = func(trial string) (io.ReadCloser, error) {
		if _, ok := files[trial]; !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(bytes.NewReader(files[trial])), nil
	}
	return Analysed(t, run)
}

// fill generates a trial's counts and requests.
func (m *shop) fill(t *record.Trial) {
	s := &record.Scenario{StartNS: m.zero, EndNS: m.zero + 20_000*milli, CountedS: 20, CPU: map[string]record.CPU{}, Memory: map[string]int64{"control_plane": 120e6}}
	pods := map[string]int{"clients": 2, "front": 2, "stock": 10, "prices": 3}
	for i, service := range []string{"clients", "front", "stock", "prices"} {
		for n := range pods[service] {
			p := record.ScenarioPod{Name: fmt.Sprintf("%s-%d", service, n), Service: service, IP: fmt.Sprintf("10.0.%d.%d", i, n), Sidecar: true, ReadyNS: m.zero - 5000*milli}
			if service == "stock" && n == 9 {
				p.GoneNS = m.zero + 4004*milli
			}
			s.Pods = append(s.Pods, p)
		}
		s.CPU[service+".proxy"] = record.CPU{UserS: 0.25 * float64(pods[service]) * m.noise, SystemS: 0.1 * float64(pods[service])}
		s.CPU[service+".worker"] = record.CPU{UserS: 0.1 * float64(pods[service]) * m.noise}
		s.Memory[service+".proxy"] = int64(48e6 * float64(pods[service]) * m.noise)
	}
	s.CPU["control_plane"], s.CPU[record.PartMachine] = record.CPU{UserS: 0.4 * m.noise, SystemS: 0.1}, record.CPU{UserS: 14 * m.noise, SystemS: 6}
	for at := int64(0); at < 20_000; at += 100 {
		sample := record.ScenarioSample{AtNS: m.zero + at*milli, Ready: map[string]int{"front": 2, "stock": 10, "prices": 3}, Ejected: map[string]int{"stock": 0}}
		if at >= 4000 {
			sample.Ready["stock"] = 9
		}
		if m.detects && at >= 8900 && at < 15_000 {
			sample.Ejected["stock"] = 1
		}
		s.Samples = append(s.Samples, sample)
	}
	t.Scenario = s
	n := 0
	for at := int64(0); at < 20_000*milli; n++ {
		m.request(fmt.Sprintf("mm-%s-%d-%d", m.trial, n%2, n/2), at, n%2)
		rate := 100.0
		if at >= 15_000*milli && at < 18_000*milli {
			rate = 300
		}
		at += int64(m.r.ExpFloat64() / rate * 1e9)
	}
	s.Scheduled = int64(n)
}

func (m *shop) events() []record.Event {
	event := func(name, op, object string, at int64, proof string) record.Event {
		late := int64(m.r.ExpFloat64() * 4e5)
		return record.Event{Schema: record.Schema, Trial: m.trial, Kind: "step", Op: op, Object: object, Step: name, PlannedNS: m.zero + at*milli, SentNS: m.zero + at*milli + late,
			CommittedNS: m.zero + at*milli + late + 4*milli, WatchedNS: m.zero + at*milli + late + 60*milli, Proof: proof}
	}
	out := []record.Event{event("gone", "remove", "stock-9", 4000, "the EndpointSlices of stock have 9 endpoints ready"), event("sick", "worker", "stock-0", 8000, "the worker says that it fails 100% by status 503"),
		event("sick", "end worker", "stock-0", 12000, ""), event("sale", "load", "clients", 15000, "the clients' schedules have 300 per second"), event("sale", "end load", "clients", 18000, "")}
	for i := range out {
		out[i].Change = i
	}
	return out
}

// request writes a request's path through front to stock and prices.
func (m *shop) request(id string, due int64, client int) {
	wait := func(mean float64) int64 { return int64(mean * (0.85 + 0.3*m.r.Float64()) * m.noise * 1e6) }
	busy := 1.0
	if due >= 15_000*milli && due < 18_500*milli {
		busy = 1.5 + m.r.ExpFloat64()/2
	}
	proxy := func(side ledger.Side, service, pod, to, host string, at, long int64, status int, flags string, attempts int) {
		details := "via_upstream"
		if flags != "" {
			details = "upstream_reset_before_response_started{connection_failure}"
		}
		m.book.AddProxy(ledger.ProxyEntry{ID: id, Side: side, Service: service, Pod: pod, To: to, StartNS: m.zero + at, DurationNS: long, Status: status, GRPC: -1, Flags: flags, Details: details, Host: host, Attempts: attempts})
	}
	front := fmt.Sprintf("front-%d", m.r.IntN(2))
	at := due + milli
	// Stock: attempts at the missing and at the failing pod fail.
	begin, status, flags, attempts, host := at+milli, 200, "", 0, ""
	now := begin
	for {
		attempts++
		pod := m.r.IntN(9)
		if due >= 4000*milli && due < m.phantomEnd && m.r.IntN(10) == 0 {
			pod = 9
		} else if due < 4000*milli {
			pod = m.r.IntN(10)
		}
		host = fmt.Sprintf("10.0.2.%d:80", pod)
		sick := pod == 0 && due >= 8010*milli && due < 12_000*milli
		if sick && due >= m.sickUntil {
			continue // ejected: choose another
		}
		status, flags = 200, ""
		switch {
		case pod == 9 && due >= 4000*milli:
			now += wait(1)
			status, flags = 503, "UF"
		default:
			long := int64(float64(wait(60)) * busy)
			ended := ledger.EndAnswered
			if sick {
				long, status = wait(1), 503
			}
			server := fmt.Sprintf("stock-%d", pod)
			proxy(ledger.SideServer, "stock", server, "", "127.0.0.6:80", now, long, status, "", 1)
			m.book.AddWorker(ledger.WorkerEntry{ID: id, Service: "stock", Pod: server, StartNS: m.zero + now, EndNS: m.zero + now + long, Status: status, Ended: ended})
			now += long
		}
		if status == 200 || attempts == m.tries {
			break
		}
	}
	if flags != "" && m.tries > 1 {
		flags = "URX," + flags
	}
	proxy(ledger.SideClient, "front", front, "stock", host, begin, now-begin, status, flags, attempts)
	if status == 200 {
		long := wait(5)
		n := m.r.IntN(3)
		proxy(ledger.SideServer, "prices", fmt.Sprintf("prices-%d", n), "", "127.0.0.6:80", now, long, 200, "", 1)
		m.book.AddWorker(ledger.WorkerEntry{ID: id, Service: "prices", Pod: fmt.Sprintf("prices-%d", n), StartNS: m.zero + now, EndNS: m.zero + now + long, Status: 200, Ended: ledger.EndAnswered})
		proxy(ledger.SideClient, "front", front, "prices", fmt.Sprintf("10.0.3.%d:80", n), now, long, 200, "", 1)
		now += long
	}
	now += milli / 2
	m.book.AddWorker(ledger.WorkerEntry{ID: id, Service: "front", Pod: front, StartNS: m.zero + at, EndNS: m.zero + now, Status: map[bool]int{true: 200, false: 502}[status == 200], Ended: ledger.EndAnswered})
	answer := 200
	if status != 200 {
		answer = 502
	}
	proxy(ledger.SideServer, "front", front, "", "127.0.0.6:80", at, now-at, answer, "", 1)
	proxy(ledger.SideClient, "clients", fmt.Sprintf("clients-%d", client), "front", "10.0.1."+front[6:]+":80", due+milli/2, now-due, answer, "", 1)
	entry := ledger.ClientEntry{ID: id, IntendedNS: m.zero + due, SentNS: m.zero + due + milli/10, DoneNS: m.zero + now + milli/2, Outcome: ledger.OutcomeOK, Status: answer}
	if answer != 200 {
		entry.Outcome = ledger.OutcomeStatus
	}
	m.book.AddClient(entry)
}

// made caches findings that several tests read and none changes.
var made = struct {
	sync.Mutex
	findings map[string]record.Findings
}{findings: map[string]record.Findings{}}

func Once(t *testing.T, name string, spoil func(*record.Trial, []record.Event)) record.Findings {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if f, ok := made.findings[name]; ok {
		return f
	}
	f := Resilience(t, spoil)
	made.findings[name] = f
	return f
}

func TenServers(t *testing.T) record.Findings { return Once(t, "good", nil) }

// Inconclusive returns the findings of a run in which a step of some trials has
// no proof.
func Inconclusive(t *testing.T) record.Findings {
	return Once(t, "inconclusive", func(trial *record.Trial, events []record.Event) {
		if i := slices.IndexFunc(events, func(e record.Event) bool { return e.Step == "gone" }); trial.Order == 1 {
			events[i].WatchedNS, events[i].Proof, events[i].Error = 0, "", "not proven: the EndpointSlices of stock still have 10 endpoints"
		}
	})
}
