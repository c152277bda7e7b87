package stages

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Input is what the stages of changes are computed from.
type Input struct {
	Events []record.Event
	// Proxies names the proxies of the events' sightings by index, as istiod does: NAME.NAMESPACE.
	Proxies []string
	// Rises holds the increase of istiod's series in the window.
	Rises map[string]float64
	// Logs holds the logs of istiod's replicas. Without them stages come from metrics alone.
	Logs []observe.IstiodLines
}

// Waterfall is the mean way of a change to a proxy that acknowledged it.
type Waterfall struct {
	// Stages holds the measured stages in order; Missing names the others.
	Stages  []record.Stage
	Missing []string
	// MeanUS is the measured mean from commit to ACK over all change-proxy pairs. ResidualUS is
	// MeanUS minus the sum of the stages, negative if the sum is larger.
	MeanUS, ResidualUS float64
	Pairs              int
	// Logged is the number of pairs that the logs show from end to end.
	Logged int
	// Unexplained describes the residuals of single pairs, which may cancel out in ResidualUS; nil
	// without pairs.
	Unexplained *record.Unexplained
}

// pushOrder is the order in which istiod sends the types of a push (pilot/pkg/xds/ads.go,
// PushOrder). Other types follow.
var pushOrder = []string{"cds", "eds", "lds", "rds", "sds"}

// Istiod's histograms of parts of the way (pilot/pkg/xds/discovery.go, delta.go, xdsgen.go).
const (
	timeDebounce = "pilot_debounce_time"            // from the first change to the end of enqueueing
	timeContext  = "pilot_pushcontext_init_seconds" // computing the push context
	timeQueue    = "pilot_proxy_queue_time"         // from enqueueing to a proxy's turn
	timePush     = "pilot_xds_push_time"            // by type: generation and Send
	timeSend     = "pilot_xds_send_time"            // Send alone
	timeTurn     = "pilot_proxy_convergence_time"   // from enqueueing to the end of a proxy's turn
)

// Make splits the time from each change's commit to each proxy's acknowledgement into stages.
//
// Each stage is its own duration rather than the distance to the start of the next, so the stages
// need not add up. Watch, debounce and wire lie between instants in istiod's log and the proxies'
// times. Push context, queue and generation come from istiod's own timers, as means over all pushes
// of the window, for generation per resource type: see [maker.untimed]. If the log also shows how
// long push context, queue and generation took, the residual is the disagreement between istiod's
// timers and its log.
//
// Pushes of endpoints alone are not logged per proxy, so their sending time is unknown and their
// wire time is in the residual. If no log shows a push, watch comes from our own watch and debounce
// from istiod's timer. A stage without a source for any pair is missing.
//
// A change counts from when istiod was notified of it, however many others its push merged. A
// change that arrives while the push of others is being made goes out with it and is not debounced.
//
// A negative watch means that istiod was notified before the commit was recorded.
func Make(in Input) Waterfall {
	m := maker{in: in, stages: map[string]*stageSum{}}
	for _, lines := range in.Logs {
		m.logs = append(m.logs, newPushLog(lines))
	}
	for _, name := range record.Stages() {
		m.stages[name] = &stageSum{by: map[string]int{}, checkedBy: map[string]int{}}
	}
	m.watched()
	m.ofTimed = m.untimed()
	m.debounced, m.apart = m.debounceApart()
	for i := range in.Events {
		m.event(&in.Events[i])
	}
	return m.waterfall()
}

// stageSum accumulates one stage over pairs, in nanoseconds.
type stageSum struct {
	sum       float64
	by        map[string]int // number of pairs by source
	apart     float64        // sum of the second source's excess
	checkedBy map[string]int
}

func (s *stageSum) add(ns float64, source string) {
	s.sum += ns
	s.by[source]++
}

// compare records a second source's value for ns.
func (s *stageSum) compare(ns, other float64, source string) {
	s.apart += other - ns
	s.checkedBy[source]++
}

// maker sums stages over pairs.
type maker struct {
	in     Input
	logs   []*pushLog
	stages map[string]*stageSum
	// meanWatch is the mean over changes that opened their push. opened maps the instant of a
	// push's first change to that change.
	meanWatch float64
	opened    map[int64]int
	watches   int // number of changes in the mean

	// ofTimed is the result of [maker.untimed]; debounced and apart are those of
	// [maker.debounceApart].
	ofTimed   float64
	debounced float64
	apart     bool

	total       float64
	pairs, full int
	unexplained record.Unexplained
	// place is how much longer than the means the current pair's turn took until its resources were
	// sent; NaN if no log shows it.
	place float64
}

// watched finds the changes whose arrival at istiod is in its log: those that opened a push.
func (m *maker) watched() {
	m.opened = map[int64]int{}
	for i := range m.in.Events {
		e := &m.in.Events[i]
		if e.Error != "" || e.CommittedNS == 0 {
			continue
		}
		for _, l := range m.logs {
			p, ok := l.carrying(last(e), math.MaxInt64, endpointsAlone(e))
			if !ok || !p.debounced || p.first < last(e) {
				continue
			}
			if j, taken := m.opened[p.first]; taken && m.in.Events[j].SentNS <= e.SentNS {
				continue
			}
			m.opened[p.first] = i
		}
	}
	total := 0.0
	for _, first := range slices.Sorted(maps.Keys(m.opened)) { // fixed order, for a reproducible sum
		i := m.opened[first]
		total += float64(first - m.in.Events[i].CommittedNS)
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
	var own []ownWay
	for k, acked := range e.Seen.AckedUS {
		if acked == record.Never || k >= len(e.Seen.ReceivedUS) || k >= len(e.Seen.Proxy) {
			continue
		}
		node := ""
		if n := int(e.Seen.Proxy[k]); n >= 0 && n < len(m.in.Proxies) {
			node = m.in.Proxies[n]
		}
		m.pairs++
		m.total += float64(acked) * 1e3
		before, full := m.sum(), m.full
		m.place = math.NaN()
		m.pair(e, node, e.CommittedNS+e.Seen.ReceivedUS[k]*1e3, e.CommittedNS+acked*1e3)
		own = append(own, ownWay{float64(acked) * 1e3, m.sum() - before, m.place, m.full > full})
	}
	m.single(own)
}

// Sources of stages.
const (
	byProxy = "the proxies' own times"
	byLog   = "istiod's log"
	byWatch = "our own watch"
	byBoth  = "istiod's log and the proxies' own times"
	byMean  = "istiod's log, the mean of the changes that opened a push"
	byRest  = "istiod's log less " + timeQueue
	byRide  = "istiod's log, of changes that went with the push of others"
)

// pair adds the stages of one change's way to one proxy.
func (m *maker) pair(e *record.Event, node string, received, acked int64) {
	m.stages[record.StageAck].add(float64(acked-received), byProxy)
	l := m.logOf(node)
	var p push
	ok := false
	if l != nil {
		p, ok = l.carrying(last(e), received+int64(clockSlack), endpointsAlone(e))
	}
	if ok {
		m.before(e, p)
	} else {
		if l != nil {
			p, ok = l.riding(last(e), received+int64(clockSlack))
		}
		switch {
		case ok:
			m.boarded(e, l, p)
		case l != nil && m.joined(e, l, node, received):
			return
		default:
			m.fromMetrics(e)
			return
		}
	}
	kind, sent := l.sentTo(e, node, p.pushing, received)
	if kind == "" {
		m.queued()
		m.generation(e)
		return
	}
	m.full++
	m.stages[record.StageWire].add(float64(received-sent), byBoth)
	m.turn(l.turn(kind, node, sent, p.pushing), p.pushing)
}

// before adds what precedes a proxy's turn: watch, debounce and push context of a push in the log.
func (m *maker) before(e *record.Event, p push) {
	context, timed := m.mean(timeContext, "")
	entered, source := p.pushing-int64(context), byLog
	if p.debounced {
		entered, source = m.entered(e, p)
	} else if !timed {
		entered = p.pushing // the push context is not known separately
	}
	watch := m.stages[record.StageWatch]
	took := float64(entered - e.CommittedNS)
	watch.add(took, source)
	if e.WatchedNS > 0 && source != byWatch && !bySteps(e) {
		watch.compare(took, float64(e.WatchedNS-e.CommittedNS), byWatch)
	}
	debounce := m.stages[record.StageDebounce]
	if !p.debounced { // endpoints that are not debounced
		debounce.add(0, byLog)
		if timed {
			m.stages[record.StagePushContext].add(context, timeContext)
		}
		return
	}
	waited := float64(p.stable - entered)
	debounce.add(waited, byLog)
	if m.apart {
		debounce.compare(waited, waited+m.debounced, timeDebounce)
	}
	logged := float64(p.pushing - p.stable)
	if timed {
		m.stages[record.StagePushContext].add(context, timeContext)
		m.stages[record.StagePushContext].compare(context, logged, byLog)
	} else {
		m.stages[record.StagePushContext].add(logged, byLog)
	}
}

// turn adds queue and generation of a turn that is in the log.
func (m *maker) turn(sent []sentType, pushing int64) {
	generated, known := 0.0, true
	for _, s := range sent {
		mean, ok := m.mean(timePush, s.kind)
		generated, known = generated+mean*m.ofTimed, known && ok
	}
	queued, okQueue := m.mean(timeQueue, "")
	if okQueue {
		m.stages[record.StageQueue].add(queued, timeQueue)
	}
	if known {
		m.stages[record.StageGenerate].add(generated, timePush)
	}
	// The start of the turn is not logged, only queue and generation together.
	if known && okQueue {
		logged := float64(sent[len(sent)-1].at - pushing)
		m.stages[record.StageGenerate].compare(generated, logged-queued, byRest)
		m.place = logged - queued - generated
	}
}

// clockSlack is the tolerance for clock errors, the log's microsecond resolution, and istiod
// logging a sending after the proxy has read it.
const clockSlack = 1e6 // nanoseconds

// bySteps reports whether a change's commit is that of the last of several steps by controllers, as
// seen by our own watch (churn's pods), rather than the API server's answer.
func bySteps(e *record.Event) bool {
	return e.WatchedNS > 0 && e.WatchedNS == e.CommittedNS && e.AnsweredNS == 0
}

// stepSlack is how much sooner than our own watch istiod may be notified of a step, in nanoseconds.
const stepSlack = 20e6

// last returns the earliest time at which istiod can have been notified of a change, or of the last
// of its steps if it has several.
func last(e *record.Event) int64 {
	if bySteps(e) {
		return max(e.SentNS, e.CommittedNS-stepSlack)
	}
	return e.SentNS
}

// entered returns when a change reached istiod's debouncing, and the source of that time.
func (m *maker) entered(e *record.Event, p push) (at int64, source string) {
	switch i, ok := m.opened[p.first]; {
	case ok && &m.in.Events[i] == e:
		return p.first, byLog
	case bySteps(e) && p.lastChange >= last(e) && p.lastChange <= e.CommittedNS+stepSlack:
		return p.lastChange, byLog // close enough to be its own
	case m.watches > 0:
		// It arrived no later than the last change that the push merged, and no sooner than it was
		// sent.
		return max(last(e), min(e.CommittedNS+int64(m.meanWatch), max(p.lastChange, p.first))), byMean
	case e.WatchedNS > 0:
		return e.WatchedNS, byWatch
	}
	// Only the first change of the push is known.
	return max(p.first, min(e.CommittedNS, p.lastChange)), byLog
}

// fromMetrics adds the stages of a pair that is in no log.
func (m *maker) fromMetrics(e *record.Event) {
	if e.WatchedNS > 0 {
		m.stages[record.StageWatch].add(float64(e.WatchedNS-e.CommittedNS), byWatch)
	}
	context, timed := m.mean(timeContext, "")
	if timed {
		m.stages[record.StagePushContext].add(context, timeContext)
	}
	// pilot_debounce_time includes the push context.
	if debounce, ok := m.mean(timeDebounce, ""); ok && timed {
		m.stages[record.StageDebounce].add(debounce-context, timeDebounce)
	}
	m.queued()
	m.generation(e)
}
