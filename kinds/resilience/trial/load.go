package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"golang.org/x/sync/errgroup"
)

// Timing of the clients' schedules.
const (
	// loadInterval is the clients' interval of record.
	loadInterval = 100 * time.Millisecond
	// loadAhead is the time between announcing a load to the clients and its start. A client whose
	// connections are ready only after the start rejects it, and the trial is lost, so loadAhead
	// exceeds the pauses of a busy machine.
	loadAhead = 4 * time.Second
	// warmLoad is the duration of the requests before the trial's own.
	warmLoad = 2 * time.Second
	// openTime is how long the clients may fail to open their connections before these requests.
	openTime = 10 * time.Second
	// mostConnections limits the connections of one client.
	mostConnections = 1000
)

// keyHeader is the header used for consistent hashing.
const keyHeader = "x-meshtrial-key"

// loadSpec returns the load of client number i in the trial.
func (s *scene) loadSpec(i int) (load.Spec, error) {
	c, l := s.scenario, s.study.Load
	spec := load.DefaultSpec(s.url(c.Entry, s.levels.Protocol, l.Path))
	spec.Protocol, spec.Method = s.levels.Protocol, l.Method
	speaks := protocol.Of(spec.Protocol)
	if !speaks.Methods {
		spec.Method = ""
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		spec.Headers = append(spec.Headers, load.Header{Name: name, Value: l.Headers[name]})
	}
	spec.PayloadBytes = int(s.levels.Payload)
	spec.Rate, spec.Arrival, spec.Seed = s.levels.Rate, s.levels.Arrival, s.seed
	spec.Share = &load.Share{Index: i, Of: c.Clients}
	spec.Connections, spec.KeepAlive = s.levels.Connections, s.levels.KeepAlive
	if !speaks.Multiplexed && !speaks.Streams {
		// Enough connections that slow answers do not delay requests.
		out := int(s.mostRPS()*l.Timeout.Seconds())/c.Clients + 1
		spec.MaxConnections = min(mostConnections, spec.Connections+out)
	}
	spec.TimeoutS = l.Timeout.Seconds()
	spec.DrainS = (l.Timeout + time.Second).Seconds()
	spec.DurationS = c.Timeline.Duration.Seconds()
	spec.IntervalS = loadInterval.Seconds()
	spec.RequestLog, spec.RequestID = true, fmt.Sprintf("%s%d", s.idPrefix(), i)
	spec.HeaderKey = &load.HeaderKey{Name: keyHeader, Values: resilience.HashKeys}
	return spec, spec.Validate()
}

// mostRPS returns the highest rate of the timeline.
func (s *scene) mostRPS() float64 {
	most := s.levels.Rate.RPS()
	timeline := s.scenario.TimelineOf(s.cell)
	for _, step := range timeline.Steps {
		if l, ok := step.Action.(*fault.Load); ok {
			most = max(most, l.Rate)
		}
	}
	return most
}

// idPrefix returns the prefix of all request IDs of the trial.
func (s *scene) idPrefix() string { return ledger.IDPrefix + s.trial + "-" }

// client is a load pod.
type client struct {
	*resident
	api     *loadcontrol.Client
	started loadcontrol.Started
	seen    []load.Summary // completed intervals
}

// clients are the load pods of a trial.
type clients struct {
	all   []*client
	ahead map[string]int64
	// unanswered counts warm-up requests without an answer.
	unanswered int64

	mu sync.Mutex
}

// asLost marks an error that the loss of one of several clients may have caused. A client that has
// begun must still know its run.
func (c *clients) asLost(ctx context.Context, err error) error {
	if c == nil {
		return err // no client was found yet
	}
	all := hands.Hands{What: "client", In: "load pod"}
	for _, one := range c.all {
		all.Pods = append(all.Pods, site.Pod{Name: one.Name, Node: one.Node})
	}
	return all.AsLost(ctx, err, func(ctx context.Context, i int) (err error) {
		if one := c.all[i]; one.started.Run == "" {
			_, err = one.api.Version(ctx)
		} else {
			_, err = one.api.Intervals(ctx, one.started.Run, 0)
		}
		return err
	})
}

// each calls do for all clients concurrently.
func (c *clients) each(ctx context.Context, do func(ctx context.Context, i int, one *client) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, one := range c.all {
		group.Go(func() error {
			if err := do(ctx, i, one); err != nil {
				return fmt.Errorf("load pod %s: %w", one.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// warm sends requests with other IDs and returns the number that were answered.
func (c *clients) warm(ctx context.Context, s *scene) (record.Warmup, flowed, error) {
	begin := time.Now()
	var mu sync.Mutex
	var sum load.Account
	err := c.each(ctx, func(ctx context.Context, i int, one *client) error {
		spec, err := s.loadSpec(i)
		if err != nil {
			return err
		}
		spec.DurationS, spec.RequestLog, spec.RequestID = warmLoad.Seconds(), false, fmt.Sprintf("warm-%s-%d", s.trial, i)
		started, err := one.api.Start(ctx, spec)
		// Streams are opened before the first message, and a gateway that has just become ready may not
		// have its routes yet.
		for until := begin.Add(openTime); loadcontrol.Retryable(err) && time.Now().Before(until) && wake.Pause(ctx, lookAgain) == nil; {
			started, err = one.api.Start(ctx, spec)
		}
		if err != nil {
			return err
		}
		result, err := one.api.Result(ctx, started.Run)
		if err != nil {
			return err
		}
		total := result.Total()
		mu.Lock()
		defer mu.Unlock()
		sum.Scheduled += total.Scheduled
		sum.Completed += total.Completed
		c.unanswered += total.Scheduled - total.Completed
		return nil
	})
	if err != nil {
		return record.Warmup{}, flowed{}, fmt.Errorf("warm up: %w", err)
	}
	if sum.Completed == 0 {
		return record.Warmup{}, flowed{}, errs.WithHint(fmt.Errorf("warm up: none of %d requests to service %s was answered", sum.Scheduled, s.scenario.Entry),
			"meshtrial's pods are in namespace %s while the trial lasts", s.namespace)
	}
	return record.Warmup{Seconds: time.Since(begin).Seconds(), Steady: true,
		Why: fmt.Sprintf("%d of %d requests were answered before the timeline", sum.Completed, sum.Scheduled)}, flowed{sum.Scheduled, sum.Completed}, nil
}

// start makes all clients begin at one instant, by their own clocks.
func (c *clients) start(ctx context.Context, s *scene, at time.Time) error {
	return c.each(ctx, func(ctx context.Context, i int, one *client) error {
		spec, err := s.loadSpec(i)
		if err != nil {
			return err
		}
		spec.StartAtUnixNS = at.UnixNano() + c.ahead[one.Node]
		one.started, err = one.api.Start(ctx, spec)
		return err
	})
}

// stop ends what still runs, even if the run itself has been cancelled.
func (c *clients) stop(ctx context.Context) {
	ctx, cancel := ending.Within(ctx, site.StopTimeout)
	defer cancel()
	// An error means that the run has ended or its pod is gone.
	_ = c.each(ctx, func(ctx context.Context, _ int, one *client) error {
		if one.started.Run != "" {
			_, _ = one.api.Stop(ctx, one.started.Run)
		}
		return nil
	})
}

// outcome is the combined record of all clients.
type outcome struct {
	total   *load.Window
	entries []ledger.ClientEntry
	lost    int64
	// answered is the time when each client sent the last of its answered requests, 0 if none was
	// answered.
	answered []int64
}

// collect waits until every client has ended, and reads its record.
func (c *clients) collect(ctx context.Context) (outcome, error) {
	results := make([]*load.Result, len(c.all))
	logs := make([][]ledger.ClientEntry, len(c.all))
	lost, answered := make([]int64, len(c.all)), make([]int64, len(c.all))
	err := c.each(ctx, func(ctx context.Context, i int, one *client) error {
		var err error
		if results[i], err = one.api.Result(ctx, one.started.Run); err != nil {
			return err
		}
		ahead := c.ahead[one.Node]
		header, err := one.api.EachRequest(ctx, one.started.Run, func(h *load.RequestsHeader, r load.Request) error {
			at := func(ns int64) int64 {
				if ns == record.Never {
					return record.Never
				}
				return h.StartUnixNS - ahead + ns
			}
			if r.Outcome == ledger.OutcomeOK {
				answered[i] = max(answered[i], at(r.SentNS))
			}
			logs[i] = append(logs[i], ledger.ClientEntry{ID: h.ID(r), IntendedNS: at(r.IntendedNS), SentNS: at(r.SentNS), DoneNS: at(r.DoneNS), Outcome: r.Outcome, Status: r.Status})
			return nil
		})
		lost[i] = header.Lost
		return err
	})
	if err != nil {
		return outcome{}, fmt.Errorf("collect what the clients recorded: %w", err)
	}
	out := outcome{answered: answered}
	merged, err := load.Merge(results...)
	if err != nil {
		return outcome{}, err
	}
	out.total = merged.Total()
	for i := range logs {
		out.entries = append(out.entries, logs[i]...)
		out.lost += lost[i]
	}
	return out, nil
}

// momentLength is the period that a moment covers.
const momentLength = time.Second

// moment returns what the clients observed in the last second that has ended for all of them.
func (c *clients) moment(ctx context.Context) (record.Moment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.each(ctx, func(ctx context.Context, _ int, one *client) error {
		status, err := one.api.IntervalsWithLatency(ctx, one.started.Run, len(one.seen))
		if err == nil && status.Error != "" {
			err = errors.New(status.Error)
		}
		one.seen = append(one.seen, status.Intervals...)
		return err
	})
	if err != nil {
		return record.Moment{}, fmt.Errorf("read the clients' progress: %w", err)
	}
	last := len(c.all[0].seen)
	for _, one := range c.all {
		last = min(last, len(one.seen))
	}
	return momentOf(c.all, last)
}

// momentOf returns the second before interval number last, over all clients.
func momentOf(all []*client, last int) (record.Moment, error) {
	first := max(0, last-int(momentLength/loadInterval))
	m := record.Moment{AtS: float64(last) * loadInterval.Seconds()}
	answers := int64(0)
	var micros []int64
	for _, one := range all {
		for _, s := range one.seen[first:last] {
			m.Requests += s.Scheduled
			m.Failed += s.Failed + s.Unfinished
			answers += s.Answered
			left := s.Completed
			err := s.Intended.Each(func(ns float64, count int64) {
				if left -= count; left >= 0 {
					micros = append(micros, slices.Repeat([]int64{int64(ns / 1e3)}, int(count))...)
				}
			})
			if err == nil && left != 0 {
				err = fmt.Errorf("its histogram does not have the %d answers", s.Completed)
			}
			if err != nil {
				return m, fmt.Errorf("latency of interval %d: %w", s.Index, err)
			}
		}
	}
	if m.Requests > 0 {
		m.ErrorShare = float64(m.Failed) / float64(m.Requests)
	}
	if last > first {
		m.RateRPS = float64(answers) / (float64(last-first) * loadInterval.Seconds())
	}
	m.SetLatency(micros)
	return m, nil
}

// keepsLedger reports whether the study tracks every request. Otherwise only the clients write a
// log, so that the proxies' usage excludes logging.
func (s *scene) keepsLedger() bool { return s.study.Measured(study.MeasureLedger) }

// proxiesLog reports whether proxies write lines for the ledger.
func (s *scene) proxiesLog() bool {
	_, ok := able[mesh.RequestLogger](s)
	return ok && s.keepsLedger()
}

// ledgerSide returns the side whose proxies write a line for a request: see [Scenario].
func (s *scene) ledgerSide() string {
	m, ok := able[mesh.RequestLogger](s)
	switch {
	case !s.keepsLedger():
		return record.LedgerClients
	case s.ambient():
		return record.LedgerEnds
	case ok && m.LogsInboundOnly():
		return record.LedgerInbound
	}
	return ""
}

// ledgerOptions returns the ledger's view of the services.
func (s *scene) ledgerOptions() ledger.Options {
	logs := s.proxiesLog()
	return verdict.LedgerOptions(s.scenario, s.cell, s.ledgerSide(), func(service string) bool {
		one, known := s.scenario.Graph.Service(service)
		return logs && (known && one.Sidecar || !known && s.workload(nil).Proxy != nil)
	})
}
