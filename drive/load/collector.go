package load

import "sync"

// edges samples the process's CPU time at the edges of intervals.
type edges struct {
	interval int64
	mu       sync.Mutex
	at       []CPU // at[k] is the CPU time used at edge k
	ended    bool
}

func newEdges(interval int64) *edges {
	return &edges{interval: interval, at: []CPU{ownCPU()}}
}

// sample records the CPU time at now. It interpolates missed edges linearly.
func (e *edges) sample(now int64) {
	c := ownCPU()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fill(int(now/e.interval), c)
}

func (e *edges) fill(upTo int, c CPU) {
	from := len(e.at) - 1
	if from == 0 && upTo == 0 {
		e.at[0] = c // the schedule's offset 0 may be after the start
	}
	base := e.at[from]
	for k := from + 1; k <= upTo; k++ {
		f := float64(k-from) / float64(upTo-from)
		e.at = append(e.at, CPU{base.User + f*(c.User-base.User), base.System + f*(c.System-base.System)})
	}
}

// finish notes the CPU time at the run's end.
func (e *edges) finish(now int64) {
	c := ownCPU()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fill(max(int((now+e.interval-1)/e.interval), len(e.at)), c)
	e.ended = true
}

// between returns the CPU time of interval k.
func (e *edges) between(k int) CPU {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k+1 >= len(e.at) {
		return CPU{}
	}
	return e.at[k+1].sub(e.at[k])
}

// collector receives the sealed tallies of all shards, adds them up by interval, packs them,
// and publishes summaries.
type collector struct {
	shards   int
	interval int64
	closed   bool // at rate max the send histogram is also the intended one
	edges    *edges
	sealed   chan *tally
	spare    chan *tally
	pending  map[int]*tally
	got      map[int]int
	publish  func(Interval, Summary)
	progress []progress  // of each shard
	reasons  []reasons   // of each shard, which owns them until it ends
	logs     []*shardLog // of each shard; nil: none
}

func newCollector(shards int, interval int64, closed bool, e *edges, publish func(Interval, Summary)) *collector {
	c := &collector{
		shards: shards, interval: interval, closed: closed, edges: e,
		sealed: make(chan *tally, 1024), spare: make(chan *tally, 4*shards),
		pending: map[int]*tally{}, got: map[int]int{}, publish: publish,
		progress: make([]progress, shards), reasons: make([]reasons, shards),
	}
	for range 3 * shards {
		c.spare <- newTally()
	}
	return c
}

// recorder returns the recorder of a shard.
func (c *collector) recorder(shard int) recorder {
	r := recorder{
		interval: c.interval, closed: c.closed, seal: c.seal, fresh: c.fresh,
		n: int64(shard), stride: int64(c.shards), done: &c.progress[shard],
	}
	if c.logs != nil {
		r.log = c.logs[shard]
	}
	return r
}

// fresh returns an empty tally.
func (c *collector) fresh() *tally {
	select {
	case t := <-c.spare:
		return t
	default:
		return newTally()
	}
}

// seal takes a finished tally.
func (c *collector) seal(t *tally) { c.sealed <- t }

// run collects tallies until sealed is closed.
func (c *collector) run() {
	for t := range c.sealed {
		i := t.index
		if sum, ok := c.pending[i]; ok {
			sum.add(t)
			c.recycle(t)
		} else {
			c.pending[i] = t
		}
		c.got[i]++
		if c.got[i] == c.shards {
			c.emit(i)
		}
	}
	// A shard may have run slightly past the end.
	for i := 0; len(c.pending) > 0; i++ {
		if _, ok := c.pending[i]; ok {
			c.emit(i)
		}
	}
}

func (c *collector) emit(i int) {
	t := c.pending[i]
	delete(c.pending, i)
	delete(c.got, i)
	iv, summary := c.pack(t)
	c.recycle(t)
	c.publish(iv, summary)
}

func (c *collector) recycle(t *tally) {
	t.reset()
	select {
	case c.spare <- t:
	default:
	}
}

func (t *tally) add(u *tally) {
	t.Counts.add(&u.Counts)
	for k := range t.failed {
		t.failed[k] += u.failed[k]
	}
	t.intended.merge(&u.intended)
	t.send.merge(&u.send)
	t.lag.merge(&u.lag)
	t.wait.merge(&u.wait)
	t.gaps.Merge(&u.gaps)
	t.serial.Merge(&u.serial)
}

func (c *collector) pack(t *tally) (Interval, Summary) {
	send := &t.send
	if c.closed {
		send = &t.intended
	}
	iv := Interval{
		Index: t.index, StartNS: int64(t.index) * c.interval, DurationNS: c.interval,
		Counts:   t.Counts,
		Intended: t.intended.pack(), Send: send.pack(), Lag: t.lag.pack(), Wait: t.wait.pack(),
		Gaps: t.gaps, Serial: t.serial,
	}
	iv.CPU, iv.Failed = c.edges.between(t.index), map[string]int64{}
	for k, n := range t.failed {
		if n > 0 {
			iv.Failed[kinds[k]] = n
		}
	}
	return iv, Summary{
		Index: iv.Index, StartNS: iv.StartNS, DurationNS: iv.DurationNS,
		Scheduled: iv.Scheduled, Completed: iv.Completed, Failed: iv.FailedTotal(), Unfinished: iv.Unfinished,
		Answered: iv.Within.Answered,
		P50NS:    quantile(iv.Intended, 50), P99NS: quantile(iv.Intended, 99),
	}
}
