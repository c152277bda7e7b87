package push

import (
	"cmp"
	"math"
)

// Proxies return after a random time up to firstBackoff, which doubles with each
// refusal up to lastBackoff (the retries of a discovery stream by Envoy and the
// agent). istiod lets a stream wait a second before it refuses it.
const (
	firstBackoff = 0.5
	lastBackoff  = 30
	streamWait   = 1
)

// arrive processes a change that istiod is notified of.
func (r *replica) arrive() {
	c := int32(r.arrived)
	r.arrived++
	change := &r.in.Changes[c]
	if cost := r.in.Costs.Change; cost > 0 {
		r.begin(jobChange, c, cost, 1)
	}
	if r.in.Settings.DirectEndpoints && r.in.Kinds[change.Kind].Types == SetOf(EDS) {
		r.push([]int32{c}, true)
		return
	}
	r.waiting = append(r.waiting, c)
	r.debounce.Change(r.now)
}

func (r *replica) fire() {
	if r.debounce.Fire(r.now) {
		r.pushWaiting()
	}
}

func (r *replica) pushWaiting() {
	r.push(r.waiting, false)
	r.waiting = nil
}

// push starts the push context of some changes.
func (r *replica) push(changes []int32, direct bool) {
	path := 0.0
	for _, c := range changes {
		path = math.Max(path, r.in.Kinds[r.in.Changes[c].Kind].Context)
	}
	r.making, r.direct = append(r.making, changes), append(r.direct, direct)
	r.begin(jobContext, int32(len(r.making)-1), path, 1)
}

// complete finishes the job that is due first.
func (r *replica) complete() {
	j := r.jobs.pop()
	if len(r.jobs) == 0 {
		r.load, r.shared = 0, 0 // discards accumulated rounding errors
	} else {
		r.load -= j.load
	}
	switch j.kind {
	case jobChange:
		r.out.CPU += r.in.Costs.Change
	case jobContext:
		r.contextMade(j.who)
	case jobTurn:
		r.generated(j.who)
	case jobConnect:
		r.connected(j.who)
	}
}

// contextMade queues every connected proxy.
func (r *replica) contextMade(push int32) {
	path := 0.0
	for _, c := range r.making[push] {
		r.order = append(r.order, c)
		r.counts.append(&r.in.Changes[c])
		path = math.Max(path, r.in.Kinds[r.in.Changes[c].Kind].Context)
	}
	r.making[push] = nil
	r.cleared = r.now
	r.out.CPU += path
	r.out.Contexts++
	if r.queue.len() > 0 {
		r.out.Overlapped++
	}
	n := len(r.entities)
	if n > 0 {
		r.first = r.rng.IntN(n)
	}
	for i := range n {
		who := i + r.first
		if who >= n {
			who -= n
		}
		r.enqueue(int32(who))
	}
	r.out.Longest = math.Max(r.out.Longest, float64(r.queued))
	if !r.direct[push] && r.debounce.Done(r.now) {
		r.pushWaiting()
	}
}

func (r *replica) enqueue(who int32) {
	e := &r.entities[who]
	switch e.state {
	case idle:
		e.state, e.start = queued, r.now
		r.queue.push(who)
		r.queued += int(e.weight)
		r.active++
	case running:
		if !e.again {
			e.again, e.next = true, r.now
		}
	}
}

// fill assigns free slots to waiting entities.
func (r *replica) fill() {
	for r.queue.len() > 0 {
		who := r.queue.peek()
		e := &r.entities[who]
		if r.taken > 0 && r.taken+int(e.weight) > r.slots {
			return
		}
		r.queue.pop()
		r.queued -= int(e.weight)
		r.taken += int(e.weight)
		e.state = running
		e.to = int32(len(r.order))
		r.look(e)
		e.cpu = r.turnCPU(e)
		r.begin(jobTurn, who, e.cpu/r.in.Costs.Parallel, r.loadOf(e))
	}
}

// loadOf returns how many CPUs an entity's job uses when available, including the
// work of other processes on these CPUs for it.
func (r *replica) loadOf(e *entity) float64 {
	load := float64(e.weight) * r.in.Costs.Parallel
	class := &r.in.Classes[e.class]
	if class.Beside == 0 && class.BesideByte == 0 || !(e.cpu > 0) {
		return load
	}
	beside := 0.0
	for t := range Types {
		if m := r.counts.merged(int(e.class), t, int(e.had), int(e.to)); m.changes > 0 {
			beside += class.Beside*m.pushes() + class.BesideByte*class.Bytes[t].of(m)
		}
	}
	return load * (1 + beside/e.cpu)
}

// turnCPU returns the CPU time of the turn of one of an entity's proxies.
func (r *replica) turnCPU(e *entity) float64 {
	if r.counts.needed(int(e.class), int(e.had), int(e.to)) == 0 {
		return r.in.Costs.Skip
	}
	class, cpu := &r.in.Classes[e.class], 0.0
	for t := range Types {
		m := r.counts.merged(int(e.class), t, int(e.had), int(e.to))
		if m.changes == 0 {
			continue
		}
		m.anew = float64(e.missing[t]) / float64(e.weight)
		cpu += class.CPU[t].of(m)
	}
	return cpu
}

// generated ends a turn.
func (r *replica) generated(who int32) {
	e := &r.entities[who]
	weight := float64(e.weight)
	r.out.CPU += e.cpu * weight
	r.keep(e)
	r.taken -= int(e.weight)
	if r.counts.needed(int(e.class), int(e.had), int(e.to)) == 0 {
		r.out.Skipped += weight
	} else {
		r.out.Turns += weight
		r.out.Waited += (r.now - e.start) * weight
		class, all := &r.in.Classes[e.class], 0.0
		for t := range Types {
			if m := r.counts.merged(int(e.class), t, int(e.had), int(e.to)); m.changes > 0 {
				bytes := class.Bytes[t].of(m)
				all += bytes
				r.account(e, t, m, bytes)
			}
		}
		r.delivered(e, r.now+class.Apply+class.ApplyByte*all)
	}
	e.had = e.to
	r.active--
	e.state = idle
	if e.again {
		e.again = false
		r.enqueue(who)
		e.start = e.next
	}
}

// account counts a push of a type.
func (r *replica) account(e *entity, t Type, m merge, bytes float64) {
	weight := float64(e.weight)
	r.out.Pushes[t] += weight * m.pushes()
	r.out.Bytes[t] += bytes * weight
	r.out.Own[t] += weight * float64(m.asked)
	switch {
	case m.sent && m.whole:
		r.out.Whole[t] += weight
	case m.sent:
		r.out.Own[t] += weight * float64(m.own)
	}
	r.out.Anew[t] += float64(e.missing[t])
}

// delivered counts what an entity acknowledges at a given time: all changes that
// it needs up to e.to. If there are very many at once, an even sample represents
// all.
func (r *replica) delivered(e *entity, acked float64) {
	const most = 64
	class, weight := int(e.class), float64(e.weight)
	needed := r.counts.needed(class, int(e.had), int(e.to))
	if needed == 0 {
		return
	}
	r.out.Needed += weight * float64(needed)
	r.out.Seconds = math.Max(r.out.Seconds, acked)
	sample := min(needed, most)
	each := weight * float64(needed) / float64(sample)
	first := math.Inf(1)
	at := int(e.had)
	for i := range sample {
		nth := (2*i + 1) * needed / (2 * sample)
		at = r.counts.nth(class, int(e.had), at, int(e.to), nth)
		commit := r.in.Changes[r.order[at]].At
		first = math.Min(first, commit)
		r.out.Convergence.Add(math.Max(0, acked-commit), each)
	}
	r.out.Stale += weight * math.Max(0, acked-math.Max(first, e.acked))
	e.acked = acked
}

// ring performs the action of an alarm.
func (r *replica) ring() {
	a := r.alarms.pop()
	e := &r.entities[a.who]
	switch a.kind {
	case alarmAttempt:
		limit := r.in.Settings.ConnectLimit
		limit = cmp.Or(limit, float64(DefaultThrottle(r.in.Settings.Cores)))
		if e.tries == 0 {
			e.had = int32(len(r.order))
		}
		e.tries++
		start := math.Max(r.now, r.nextStream)
		if start-r.now > streamWait {
			r.out.Refused += float64(e.weight)
			backoff := math.Min(lastBackoff, firstBackoff*math.Exp2(float64(e.tries)))
			r.alarm(r.now+backoff*r.rng.Float64(), alarmAttempt, a.who)
			return
		}
		r.nextStream = start + float64(e.weight)/limit
		r.alarm(start, alarmAdmit, a.who)
	case alarmAdmit:
		e.to = int32(len(r.order))
		r.begin(jobConnect, a.who, r.in.Classes[e.class].Connect/r.in.Costs.Parallel, float64(e.weight)*r.in.Costs.Parallel)
	}
}

// connected completes a proxy's reconnection: it has everything that was pushed
// when its stream was accepted.
func (r *replica) connected(who int32) {
	e := &r.entities[who]
	class := &r.in.Classes[e.class]
	r.out.CPU += class.Connect * float64(e.weight)
	r.out.Connecting.Add(r.now+class.Apply-e.since, float64(e.weight))
	e.acked = r.in.StormAt
	r.delivered(e, r.now+class.Apply)
	e.had, e.state = e.to, idle
	if int(e.had) < len(r.order) {
		r.enqueue(who)
	}
}
