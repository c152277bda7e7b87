package stages

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Input is what the stages of changes are worked out from.
type Input struct {
	Events []record.Event
	// Proxies names the proxies of the events' sightings by their index, as
	// istiod does: NAME.NAMESPACE.
	Proxies []string
	// Rises is how far istiod's series rose in the window.
	Rises map[string]float64
	// Logs are those of istiod's replicas; without them stages come from
	// metrics alone.
	Logs []observe.IstiodLines
}

// Waterfall is the mean way of a change to a proxy that acknowledged it.
type Waterfall struct {
	// Stages are those that anybody measured, in their order; Missing names
	// the others.
	Stages  []record.Stage
	Missing []string
	// MeanUS is the measured mean from commit to ACK over all
	// Change-proxy pairs; ResidualUS is what the stages' sum
	// lacks of it, below zero where they say more than passed.
	MeanUS, ResidualUS float64
	Pairs              int
	// Logged is how many of the pairs the logs show from end to end.
	Logged int
	// Unexplained is what single pairs lack, where errors either way make
	// ResidualUS small; nil without pairs.
	Unexplained *record.Unexplained
}

// Within tells whether the residual is small.
func (w Waterfall) Within() bool { return math.Abs(w.ResidualUS) <= w.Limit() }

// Limit is what a waterfall may leave unexplained, and what two sources of
// one stage may differ by, in microseconds: see [record.MaxResidualUS].
func (w Waterfall) Limit() float64 { return record.MaxResidualUS(w.MeanUS) }

// Apart lists the stages whose second source differs by more than that.
func (w Waterfall) Apart() []record.Stage {
	var out []record.Stage
	for _, s := range w.Stages {
		if s.CheckUS != nil && math.Abs(*s.CheckUS-s.MeanUS) > w.Limit() {
			out = append(out, s)
		}
	}
	return out
}

// pushOrder is the order in which istiod sends the types of a push
// (pilot/pkg/xds/ads.go, PushOrder); others follow.
var pushOrder = []string{"cds", "eds", "lds", "rds", "sds"}

// Histograms of istiod's that time a part of the way
// (pilot/pkg/xds/discovery.go, delta.go, xdsgen.go).
const (
	timeDebounce = "pilot_debounce_time"            // from the first change to the end of the enqueueing
	timeContext  = "pilot_pushcontext_init_seconds" // computing the push context
	timeQueue    = "pilot_proxy_queue_time"         // from the enqueueing to a proxy's turn
	timePush     = "pilot_xds_push_time"            // by type: generation and Send
	timeSend     = "pilot_xds_send_time"            // Send alone
	timeTurn     = "pilot_proxy_convergence_time"   // from the enqueueing to the end of a proxy's turn
)

// Make splits the time from each change's commit to each proxy's
// acknowledgement into stages.
//
// Each stage is a duration of its own, not the distance to where the next
// begins, so that they need not add up: watch, debounce and wire lie between
// instants in istiod's log and the proxies' times; push context, queue and
// generation are what istiod's own timers say. Where the log shows how long
// push context, queue and generation took too, the residual is by how much
// istiod's timers and its log disagree. Push context, queue and generation
// are means over all pushes of the window, generation by type of resource, see
// [maker.untimed].
//
// Pushes of nothing but endpoints are not logged by proxy: when they left is
// known to nobody, and their wire is in the residual. Where no log tells of a
// push, watch is our own watch's and debounce istiod's timer's. A stage that
// no source has for any pair is missing.
//
// A change counts from when istiod was told of it, however many others its push
// merged. One that comes while the push of others is being made goes out with
// it and is not debounced at all.
//
// A watch below zero means that istiod had been told before the commit was
// noted.
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

// stageSum gathers one stage over pairs, nanoseconds.
type stageSum struct {
	sum       float64
	by        map[string]int // pairs, by source
	apart     float64        // sum of what a second source says more
	checkedBy map[string]int
}

func (s *stageSum) add(ns float64, source string) {
	s.sum += ns
	s.by[source]++
}

// compare notes what a second source says in place of ns.
func (s *stageSum) compare(ns, other float64, source string) {
	s.apart += other - ns
	s.checkedBy[source]++
}

// maker sums stages over pairs.
type maker struct {
	in     Input
	logs   []*pushLog
	stages map[string]*stageSum
	// meanWatch is the mean of those changes that opened their push; opened
	// holds the change that did, by the instant of the push's first one.
	meanWatch float64
	opened    map[int64]int
	watches   int // how many it is the mean of

	// ofTimed is [maker.untimed]; debounced and whether it is known are
	// [maker.debounceApart].
	ofTimed   float64
	debounced float64
	apart     bool

	total       float64
	pairs, full int
	unexplained record.Unexplained
	// place is by how much longer than the means say the turn of the pair at
	// hand was until its resources were sent; NaN if no log tells.
	place float64
}

// watched finds the changes whose arrival at istiod its log tells: those that
// opened a push.
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
	for _, first := range slices.Sorted(maps.Keys(m.opened)) { // in one order: the same sum each time
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

// before adds what comes before a proxy's turn comes up: watch, debounce and
// push context of a push that is in the log.
func (m *maker) before(e *record.Event, p push) {
	context, timed := m.mean(timeContext, "")
	entered, source := p.pushing-int64(context), byLog
	if p.debounced {
		entered, source = m.entered(e, p)
	} else if !timed {
		entered = p.pushing // and the push context is not known apart
	}
	watch := m.stages[record.StageWatch]
	took := float64(entered - e.CommittedNS)
	watch.add(took, source)
	if e.WatchedNS > 0 && source != byWatch && !bySteps(e) {
		watch.compare(took, float64(e.WatchedNS-e.CommittedNS), byWatch)
	}
	debounce := m.stages[record.StageDebounce]
	if !p.debounced { // endpoints that need not wait
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

// turn adds queue and generation of a turn whose lines are in the log.
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
	// When the turn began is not logged, only queue and generation together.
	if known && okQueue {
		logged := float64(sent[len(sent)-1].at - pushing)
		m.stages[record.StageGenerate].compare(generated, logged-queued, byRest)
		m.place = logged - queued - generated
	}
}

// clockSlack is how much clocks and the log's microseconds may be off, and
// how much later than a proxy reads istiod may write that it has sent.
const clockSlack = 1e6 // nanoseconds

// bySteps tells whether a change's commit is that of the last of several
// steps, which controllers made and our own watch was told of (churn's pods),
// not an answer of the API server's.
func bySteps(e *record.Event) bool {
	return e.WatchedNS > 0 && e.WatchedNS == e.CommittedNS && e.AnsweredNS == 0
}

// stepSlack is how much sooner than our own watch istiod may be told of a
// step, nanoseconds.
const stepSlack = 20e6

// last is from when on istiod can have been told of a change, of the last of
// its steps if it has several.
func last(e *record.Event) int64 {
	if bySteps(e) {
		return max(e.SentNS, e.CommittedNS-stepSlack)
	}
	return e.SentNS
}

// entered is when a change came to istiod to be debounced, and who says so.
func (m *maker) entered(e *record.Event, p push) (at int64, source string) {
	switch i, ok := m.opened[p.first]; {
	case ok && &m.in.Events[i] == e:
		return p.first, byLog
	case bySteps(e) && p.lastChange >= last(e) && p.lastChange <= e.CommittedNS+stepSlack:
		return p.lastChange, byLog // near enough to be its own
	case m.watches > 0:
		// It came no later than the last that the push merged, and no sooner
		// than it was sent.
		return max(last(e), min(e.CommittedNS+int64(m.meanWatch), max(p.lastChange, p.first))), byMean
	case e.WatchedNS > 0:
		return e.WatchedNS, byWatch
	}
	// The first change of the push is all that is known.
	return max(p.first, min(e.CommittedNS, p.lastChange)), byLog
}

// fromMetrics adds a pair's stages that no log tells of.
func (m *maker) fromMetrics(e *record.Event) {
	if e.WatchedNS > 0 {
		m.stages[record.StageWatch].add(float64(e.WatchedNS-e.CommittedNS), byWatch)
	}
	context, timed := m.mean(timeContext, "")
	if timed {
		m.stages[record.StagePushContext].add(context, timeContext)
	}
	// pilot_debounce_time ends after the push context.
	if debounce, ok := m.mean(timeDebounce, ""); ok && timed {
		m.stages[record.StageDebounce].add(debounce-context, timeDebounce)
	}
	m.queued()
	m.generation(e)
}
