package observe

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshmark/meshmark/record"
)

// StagesInput is what the stages of changes are worked out from.
type StagesInput struct {
	Events []record.Event
	// Proxies names the proxies of the events' sightings by their index, as
	// istiod does: NAME.NAMESPACE.
	Proxies []string
	// Rises is how far istiod's series rose in the window.
	Rises map[string]float64
	// Logs are those of istiod's replicas; without them stages come from
	// metrics alone, and those that no metric has stay in the residual.
	Logs []*IstiodLog
}

// Waterfall is the mean way of a change to a proxy that acknowledged it.
type Waterfall struct {
	Stages []record.Stage
	// MeanUS is the measured mean from commit to acknowledgement over all
	// Pairs of a change and a proxy; ResidualUS is what the stages' sum
	// lacks of it.
	MeanUS, ResidualUS float64
	Pairs              int
	// Logged is how many of the pairs the logs show from end to end.
	Logged int
}

// Within tells whether the residual is small: 5% of the mean or 2 ms,
// whichever is larger.
func (w Waterfall) Within() bool {
	return math.Abs(w.ResidualUS) <= max(0.05*w.MeanUS, 2000)
}

// pushOrder is the order in which istiod sends the types of a push
// (pilot/pkg/xds/ads.go, PushOrder); others follow.
var pushOrder = []string{"cds", "eds", "lds", "rds", "sds"}

// MakeStages splits the time from each change's commit to each proxy's
// acknowledgement into stages.
//
// Where istiod's log shows a change's push and what it sent to a proxy, the
// stages lie between instants that somebody saw: the commit; the first change
// that a push merged, as istiod's log counts back to it; the end of
// debouncing; the queueing of all proxies; the beginning of the proxy's turn;
// the sending; the reading; the acknowledgement. The beginning of a turn is
// not logged: it is the first type's line less the mean time of that type
// (pilot_xds_push_time). Such stages add up.
//
// Pushes of nothing but endpoints are not logged by proxy: there queue and
// generation are the means of istiod's metrics, up to the time that passed,
// and the wire is what passed from then until the proxies had read it. Where
// no log tells of a push, only istiod's means are left, and what they do not
// explain, the wire among it, stays in the residual.
func MakeStages(in StagesInput) Waterfall {
	for _, l := range in.Logs {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	m := maker{in: in}
	m.watched()
	for i := range in.Events {
		m.event(&in.Events[i])
	}
	return m.waterfall()
}

// maker sums stages over pairs.
type maker struct {
	in  StagesInput
	sum map[string]float64 // nanoseconds by stage
	// meanWatch is the mean of those changes that opened their push; opened
	// holds the change that did, by the instant of the push's first one.
	meanWatch float64
	opened    map[int64]int
	watches   int // how many it is the mean of
	// waited sums the time from queueing to reading, and generated the mean
	// generation, of pairs that no line tells of.
	waited, generated float64

	total                   float64
	pairs, full, part, bare int
}

// watched finds the changes whose arrival at istiod its log tells: those that
// opened a push.
func (m *maker) watched() {
	m.sum, m.opened = map[string]float64{}, map[int64]int{}
	for i := range m.in.Events {
		e := &m.in.Events[i]
		if e.Error != "" || e.CommittedNS == 0 {
			continue
		}
		for _, l := range m.in.Logs {
			p, ok := l.carrying(e.SentNS, math.MaxInt64, endpointsAlone(e))
			if !ok || !p.debounced || p.first < e.SentNS {
				continue
			}
			if j, taken := m.opened[p.first]; taken && m.in.Events[j].SentNS <= e.SentNS {
				continue
			}
			m.opened[p.first] = i
		}
	}
	total := 0.0
	for first, i := range m.opened {
		total += float64(max(0, first-m.in.Events[i].CommittedNS))
		m.watches++
	}
	if m.watches > 0 {
		m.meanWatch = total / float64(m.watches)
	}
}

func (m *maker) event(e *record.Event) {
	if e.Error != "" || e.CommittedNS == 0 {
		return
	}
	for k, acked := range e.Seen.AckedUS {
		if acked == neverAcked || k >= len(e.Seen.ReceivedUS) || k >= len(e.Seen.Proxy) {
			continue
		}
		node := ""
		if n := int(e.Seen.Proxy[k]); n >= 0 && n < len(m.in.Proxies) {
			node = m.in.Proxies[n]
		}
		m.pairs++
		m.total += float64(acked) * 1e3
		m.pair(e, node, e.CommittedNS+e.Seen.ReceivedUS[k]*1e3, e.CommittedNS+acked*1e3)
	}
}

// pair adds the stages of one change's way to one proxy.
func (m *maker) pair(e *record.Event, node string, received, acked int64) {
	m.sum[record.StageAck] += float64(acked - received)
	l := m.logOf(node)
	if l == nil {
		m.fromMetrics(e)
		return
	}
	kind, sent := l.sentTo(e, node, received)
	p, ok := l.carrying(e.SentNS, received+int64(clockSlack), endpointsAlone(e))
	if !ok {
		m.fromMetrics(e)
		return
	}
	// Every instant lies between its neighbours: the answer to the change may
	// come after istiod has been told, and a line after what it tells of.
	last := max(received, e.CommittedNS)
	entered := within(m.entered(e, p), e.CommittedNS, last)
	stable := within(p.stable, entered, last)
	pushing := within(p.pushing, stable, last)
	if !p.debounced { // endpoints that need not wait
		entered = within(pushing-int64(m.mean("pilot_pushcontext_init_seconds", "")), e.CommittedNS, pushing)
		stable = entered
	}
	// Below zero where the proxy was quicker than the API server's answer.
	m.sum[record.StageWatch] += float64(entered-e.CommittedNS) + float64(received-last)
	m.sum[record.StageDebounce] += float64(stable - entered)
	m.sum[record.StagePushContext] += float64(pushing - stable)
	if kind == "" || sent < p.pushing {
		m.part++
		m.waited += float64(last - pushing)
		m.generated += m.generation(e)
		return
	}
	m.full++
	sent = within(sent, pushing, last)
	first, firstKind := l.turn(kind, node, sent, pushing)
	turn := within(first-int64(m.mean("pilot_xds_push_time", firstKind)), pushing, sent)
	m.sum[record.StageQueue] += float64(turn - pushing)
	m.sum[record.StageGenerate] += float64(sent - turn)
	m.sum[record.StageWire] += float64(last - sent)
}

func within(v, low, high int64) int64 { return min(max(v, low), high) }

// neverAcked stands for no acknowledgement in record.Sightings.
const neverAcked = -1

// clockSlack is how much clocks and the log's microseconds may be off.
const clockSlack = 1e6 // nanoseconds

// entered is when a change came to istiod to be debounced.
func (m *maker) entered(e *record.Event, p push) int64 {
	if i, ok := m.opened[p.first]; ok && &m.in.Events[i] == e {
		return p.first
	}
	if m.watches == 0 && e.WatchedNS > 0 {
		return e.WatchedNS
	}
	return e.CommittedNS + int64(m.meanWatch)
}

// fromMetrics adds a pair's stages that istiod's metrics know, none of them
// by change.
func (m *maker) fromMetrics(e *record.Event) {
	m.bare++
	if e.WatchedNS > 0 {
		m.sum[record.StageWatch] += float64(e.WatchedNS - e.CommittedNS)
	}
	context := m.mean("pilot_pushcontext_init_seconds", "")
	m.sum[record.StagePushContext] += context
	// pilot_debounce_time ends after the push context.
	m.sum[record.StageDebounce] += max(0, m.mean("pilot_debounce_time", "")-context)
	m.sum[record.StageQueue] += m.mean("pilot_proxy_queue_time", "")
	m.sum[record.StageGenerate] += m.generation(e)
}

// generation is the mean time of the types up to the change's last marker,
// each as often as it was part of a push.
func (m *maker) generation(e *record.Event) float64 {
	last := 0
	for _, marker := range e.Markers {
		for i, kind := range pushOrder {
			if marker.Type == kind {
				last = max(last, i)
			}
		}
	}
	if endpointsAlone(e) {
		return m.mean("pilot_xds_push_time", "eds")
	}
	turns := m.in.Rises["pilot_proxy_queue_time_count"]
	if turns == 0 {
		return 0
	}
	total := 0.0
	for _, kind := range pushOrder[:last+1] {
		total += m.in.Rises[series("pilot_xds_push_time_sum", kind)] / turns
	}
	return total * 1e9
}

// endpointsAlone tells whether a change shows in endpoints only.
func endpointsAlone(e *record.Event) bool {
	for _, marker := range e.Markers {
		if marker.Type != "eds" {
			return false
		}
	}
	return len(e.Markers) > 0
}

func series(name, kind string) string {
	if kind == "" {
		return name
	}
	return name + `{type="` + kind + `"}`
}

// mean is the mean of a histogram in the window, nanoseconds.
func (m *maker) mean(name, kind string) float64 {
	count := m.in.Rises[series(name+"_count", kind)]
	if count == 0 {
		return 0
	}
	return m.in.Rises[series(name+"_sum", kind)] / count * 1e9
}

// logOf finds the replica that a proxy is connected to.
func (m *maker) logOf(node string) *IstiodLog {
	for _, l := range m.in.Logs {
		if l.knows(node) {
			return l
		}
	}
	if len(m.in.Logs) == 1 {
		return m.in.Logs[0]
	}
	return nil
}

// sentTo finds the line that tells of the sending a proxy read at an instant,
// among the types that show the change; kind is "" without one.
func (l *IstiodLog) sentTo(e *record.Event, node string, received int64) (kind string, at int64) {
	for _, marker := range e.Markers {
		t, ok := l.nearest(marker.Type, node, received)
		if ok && t >= e.SentNS && (kind == "" || abs(t-received) < abs(at-received)) {
			kind, at = marker.Type, t
		}
	}
	return kind, at
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// turn walks back from a line to the first type that was sent in the same
// turn of the proxy.
func (l *IstiodLog) turn(kind, node string, sent, pushing int64) (int64, string) {
	at, first := sent, kind
	order := len(pushOrder) // of types that follow
	for i, k := range pushOrder {
		if k == kind {
			order = i
		}
	}
	for i := order - 1; i >= 0; i-- {
		t, ok := l.before(pushOrder[i], node, at)
		if ok && t >= pushing {
			at, first = t, pushOrder[i]
		}
	}
	return at, first
}

// says is the mean that istiod's metric has for a stage that the log tells
// of, for comparison: it counts a push once, however many changes it carried,
// and pushes that carried none of them too.
func (m *maker) says(logged int, name string) string {
	if logged == 0 || m.in.Rises[name+"_count"] == 0 {
		return ""
	}
	return fmt.Sprintf("the mean of %s is %.1f ms", name, m.mean(name, "")/1e6)
}

// waterfall makes means of the sums.
func (m *maker) waterfall() Waterfall {
	w := Waterfall{Pairs: m.pairs, Logged: m.full}
	if m.pairs == 0 {
		return w
	}
	// Of pairs that no line tells of, istiod's means, but no more than passed
	// until they had it.
	generated := min(m.generated, m.waited)
	queued := min(float64(m.part)*m.mean("pilot_proxy_queue_time", ""), m.waited-generated)
	m.sum[record.StageGenerate] += generated
	m.sum[record.StageQueue] += queued
	m.sum[record.StageWire] += m.waited - generated - queued
	n := float64(m.pairs)
	w.MeanUS = m.total / n / 1e3
	sum := 0.0
	for _, name := range record.Stages() {
		mean := m.sum[name] / n / 1e3
		sum += mean
		w.Stages = append(w.Stages, record.Stage{Name: name, MeanUS: mean, Source: m.source(name)})
	}
	w.ResidualUS = w.MeanUS - sum
	return w
}

// source says where a stage's figure is from, and for how many pairs.
func (m *maker) source(stage string) string {
	logged := m.full + m.part
	from := func(n int, what string) string {
		if n == 0 {
			return ""
		}
		if n == m.pairs {
			return what
		}
		return fmt.Sprintf("%s (%d of %d)", what, n, m.pairs)
	}
	var parts []string
	switch stage {
	case record.StageAck:
		return "the proxies' own times"
	case record.StageWatch:
		parts = []string{from(logged, "istiod's log"), from(m.bare, "our own watch")}
	case record.StageDebounce:
		parts = []string{from(logged, "istiod's log"), from(m.bare, "pilot_debounce_time")}
	case record.StagePushContext:
		parts = []string{from(logged, "istiod's log"), from(m.bare, "pilot_pushcontext_init_seconds")}
		parts = append(parts, m.says(logged, "pilot_pushcontext_init_seconds"))
	case record.StageQueue:
		parts = []string{from(m.full, "istiod's log and pilot_xds_push_time"), from(m.part+m.bare, "pilot_proxy_queue_time")}
		parts = append(parts, m.says(m.full, "pilot_proxy_queue_time"))
	case record.StageGenerate:
		parts = []string{from(m.full, "istiod's log and pilot_xds_push_time"), from(m.part+m.bare, "pilot_xds_push_time")}
	case record.StageWire:
		parts = []string{from(m.full, "istiod's log and the proxies' own times"),
			from(m.part, "the proxies' own times less istiod's means"), from(m.bare, "not measured, in the residual")}
	}
	var out []string
	for _, part := range parts {
		if part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, "; ")
}
