package push

import (
	"math"
	"math/rand/v2"
)

// Types of jobs.
const (
	jobChange  = iota // registries and caches process a change
	jobContext        // of the push who
	jobTurn           // of the entity who
	jobConnect        // of the entity who
)

// Purposes of alarms.
const (
	alarmAttempt = iota // a returning proxy tries to connect
	alarmAdmit          // its stream is accepted
)

// States of an entity.
const (
	idle = iota
	queued
	running
	away // not connected yet
)

// entity is a group of proxies of a class that move as one.
type entity struct {
	class  int32
	weight int32
	// had is the number of changes, in push order, that the entity has been
	// sent; to is the number that the running turn will reach.
	had, to int32
	tries   int32
	state   int8
	again   bool    // queue again after its turn
	variant int32   // index among all classes' variants
	makes   TypeSet // types that its turn adds to the cache, unless that is cleared in the meantime
	// missing counts its proxies for which the turn regenerates a type.
	missing [Types]int32
	cpu     float64 // CPU time of the turn for one of its proxies
	start   float64 // beginning of the first push waiting for it
	next    float64 // likewise for pushes that came during its turn
	since   float64 // start of its reconnection
	acked   float64 // when it last had acknowledged everything it was sent
}

// replica is one istiod.
type replica struct {
	in       *Input
	rng      *rand.Rand
	out      Result
	entities []entity
	batch    int
	slots    int // of the throttle
	taken    int
	cores    float64 // left for jobs

	now    float64
	shared float64 // clock of shared time
	load   float64 // of all jobs
	jobs   events  // ordered by the clock of shared time
	alarms events
	seq    int64

	arrived  int // changes that istiod has been notified of
	waiting  []int32
	debounce Debouncer
	making   [][]int32 // changes of each push until its context is complete
	direct   []bool    // whether each of those pushes is not debounced

	order  []int32 // changes in push order
	counts *counts
	queue  ring
	queued int // number of proxies in it
	first  int // a random entity, with which the next push begins
	active int // entities that are queued or running

	cache   []cached // by variant
	cleared float64  // when a push context was last made, which clears the cache

	nextStream float64 // when the next stream may be accepted
	lastEmpty  float64
}

func newReplica(in *Input, proxies, returning []int) *replica {
	r := &replica{in: in, rng: rand.New(rand.NewPCG(in.Seed, 0x7265706c696361)), counts: newCounts(in),
		debounce: Debouncer{After: in.Settings.DebounceAfter, Max: in.Settings.DebounceMax}}
	r.cores = math.Max(in.Settings.Cores-in.Costs.Idle, in.Settings.Cores/20)
	if r.slots = in.Settings.Throttle; r.slots == 0 {
		r.slots = DefaultThrottle(in.Settings.Cores)
	}
	all := 0
	for i := range proxies {
		all += proxies[i] + returning[i]
	}
	if r.batch = in.Batch; r.batch == 0 {
		r.batch = max(1, min(r.slots/8, all/1000))
	}
	r.batch = min(r.batch, r.slots)
	for class := range proxies {
		first := len(r.cache)
		r.cache = append(r.cache, make([]cached, max(1, in.Classes[class].Variants))...)
		r.populate(class, first, proxies[class], idle)
		r.populate(class, first, returning[class], away)
	}
	r.rng.Shuffle(len(r.entities), func(i, j int) { r.entities[i], r.entities[j] = r.entities[j], r.entities[i] })
	for i := range r.entities {
		if e := &r.entities[i]; e.state == away {
			e.since = in.StormAt
			r.alarm(in.StormAt+r.rng.Float64()*firstBackoff, alarmAttempt, int32(i))
		}
	}
	r.queue.slots = make([]int32, len(r.entities)+1)
	return r
}

// populate creates the entities of a class, whose variants begin at first.
func (r *replica) populate(class, first, proxies int, state int8) {
	variants := len(r.cache) - first
	for i := 0; proxies > 0; i++ {
		weight := min(proxies, r.batch)
		r.entities = append(r.entities, entity{class: int32(class), variant: int32(first + i%variants), weight: int32(weight), state: state})
		proxies -= weight
	}
}

func (r *replica) alarm(at float64, kind int8, who int32) {
	r.seq++
	r.alarms.push(event{at: at, seq: r.seq, kind: kind, who: who})
}

// begin starts a job with a path of some seconds that uses load CPUs, in
// parallel with the others.
func (r *replica) begin(kind int8, who int32, path, load float64) {
	r.seq++
	r.jobs.push(event{at: r.shared + path, seq: r.seq, kind: kind, who: who, load: load})
	r.load += load
}

// speed returns how fast jobs advance: 1 as long as there are enough CPUs.
func (r *replica) speed() float64 {
	if r.load <= r.cores {
		return 1
	}
	return r.cores / r.load
}

// Kinds of the next event.
const (
	nothing = iota
	aChange
	aTimer
	anAlarm
	aJob
)

// run processes one event after the other.
func (r *replica) run() {
	end := r.in.Horizon + r.in.Settle
	for {
		at, what := r.next()
		if what == nothing || at > end {
			break
		}
		r.shared += (at - r.now) * r.speed()
		r.now = at
		switch what {
		case aChange:
			r.arrive()
		case aTimer:
			r.fire()
		case anAlarm:
			r.ring()
		case aJob:
			r.complete()
		}
		r.fill()
		if r.active == 0 && r.now <= r.in.Horizon {
			r.lastEmpty = r.now
		}
	}
	if r.active == 0 && r.now <= r.in.Horizon {
		r.lastEmpty = r.in.Horizon
	}
	r.finish()
}

// next finds the earliest event.
func (r *replica) next() (at float64, what int) {
	at = math.Inf(1)
	if r.arrived < len(r.in.Changes) {
		at, what = math.Max(r.now, r.in.Changes[r.arrived].At+r.in.Costs.Watch), aChange
	}
	if t := math.Max(r.now, r.debounce.Timer()); t < at {
		at, what = t, aTimer
	}
	if len(r.alarms) > 0 {
		if t := math.Max(r.now, r.alarms[0].at); t < at {
			at, what = t, anAlarm
		}
	}
	if len(r.jobs) > 0 {
		if t := r.now + math.Max(0, r.jobs[0].at-r.shared)/r.speed(); t < at {
			at, what = t, aJob
		}
	}
	return at, what
}

// finish counts undelivered changes.
func (r *replica) finish() {
	pushed := make(map[int32]bool, len(r.order))
	for _, c := range r.order {
		pushed[c] = true
	}
	for c := range r.in.Changes {
		if !pushed[int32(c)] {
			r.counts.append(&r.in.Changes[c])
			r.order = append(r.order, int32(c))
		}
	}
	for i := range r.entities {
		e := &r.entities[i]
		lacking := float64(e.weight) * float64(r.counts.needed(int(e.class), int(e.had), len(r.order)))
		r.out.Undelivered += lacking
		r.out.Needed += lacking
	}
	r.out.Seconds = math.Max(r.out.Seconds, r.in.Horizon)
	r.out.Drained = r.lastEmpty >= r.in.Horizon/2
	if r.out.Contexts > 0 {
		r.out.Overlapped /= r.out.Contexts
	}
}
