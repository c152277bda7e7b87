package push

import (
	"math"
	"math/rand/v2"
)

// What a job is.
const (
	jobChange  = iota // registries and caches take a change
	jobContext        // who is the push
	jobTurn           // who is the entity
	jobConnect        // who is the entity
)

// What an alarm is for.
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

// entity is a number of proxies of a class that move as one.
type entity struct {
	class  int32
	weight int32
	// had is how many changes, in the order in which they were pushed, it has
	// been sent; to is how many the turn that runs brings.
	had, to int32
	tries   int32
	state   int8
	again   bool    // to be queued once its turn is over
	variant int32   // of all classes' variants
	makes   TypeSet // which its turn puts into the cache, if that is not cleared meanwhile
	// missing are those of its proxies for which the turn makes a type anew.
	missing [Types]int32
	cpu     float64 // CPU time of the turn, of one of its proxies
	start   float64 // when the first of the pushes that wait for it began
	next    float64 // the same of those that came during its turn
	since   float64 // when its way back began
	acked   float64 // when it last had acknowledged all that it was sent
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
	cores    float64 // that are left to jobs

	now    float64
	shared float64 // the clock of shared time
	load   float64 // of all jobs
	jobs   events  // at on the clock of shared time
	alarms events
	seq    int64

	arrived  int // changes that istiod has been told of
	waiting  []int32
	debounce Debouncer
	making   [][]int32 // changes of each push, until its context is made
	direct   []bool    // of those pushes, not debounced

	order  []int32 // changes as they were pushed
	counts *counts
	queue  ring
	queued int // proxies of those in it
	first  int // a random entity, with which the next push begins
	active int // entities that wait or run

	cache   []cached // by variant
	cleared float64  // when a push context last was made, and the cache cleared

	nextStream float64 // when the next stream may be accepted
	lastEmpty  float64
	connecting int
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
			r.connecting++
			e.since = in.StormAt
			r.alarm(in.StormAt+r.rng.Float64()*firstBackoff, alarmAttempt, int32(i))
		}
	}
	r.queue.slots = make([]int32, len(r.entities)+1)
	return r
}

// populate makes entities of a class, whose variants begin at first.
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

// begin puts a job with a path of some seconds, which takes load CPUs, beside
// the others.
func (r *replica) begin(kind int8, who int32, path, load float64) {
	r.seq++
	r.jobs.push(event{at: r.shared + path, seq: r.seq, kind: kind, who: who, load: load})
	r.load += load
}

// speed is how fast jobs advance: 1 as long as there are CPUs for all.
func (r *replica) speed() float64 {
	if r.load <= r.cores {
		return 1
	}
	return r.cores / r.load
}

// What comes next.
const (
	nothing = iota
	aChange
	aTimer
	anAlarm
	aJob
)

// run goes from one event to the next.
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

// next finds the event that comes first.
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

// finish counts what was not delivered.
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
