package trial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// changeBehaviour applies a step's behaviour to a worker's configuration.
func changeBehaviour(c *control.Config, b fault.Behaviour, seed uint64) {
	if b.ServiceTime != nil {
		c.ServiceTime = serviceTime(*b.ServiceTime, seed)
	}
	if b.ResponseBytes != nil {
		c.ResponseBytes = *b.ResponseBytes
	}
	if b.Concurrency != nil {
		c.Concurrency = *b.Concurrency
	}
	if b.Queue != nil {
		c.Queue = *b.Queue
	}
	if c.Concurrency == 0 {
		c.Queue = 0 // requests would not wait
	}
	if b.CPU != nil {
		c.BurnUS = record.Microseconds(*b.CPU)
	}
	if b.Memory != nil {
		c.MemoryBytes = *b.Memory
	}
	if b.Failures != nil {
		c.Failures = failuresOf(b.Failures)
	}
	if b.Ready != nil {
		c.NotReady = !*b.Ready
	}
}

// Worker changes replicas of a service in a single change.
func (r *performer) Worker(a *fault.Worker) error {
	chosen, err := r.choose(a.Service, a.Pick)
	if err != nil {
		return err
	}
	c := &handover{turn: r.altered[a.Service], set: func(c *control.Config) { changeBehaviour(c, a.Set, r.scene.seed) },
		lives: func(i int) bool { return r.census.lives(chosen[i].uid) }}
	for _, pod := range chosen {
		api := control.Client{HTTPClient: r.Dialer.Client(r.Namespace, pod.Name, site.WorkerControlPort), BaseURL: lab.InPod}
		c.apis, c.names = append(c.apis, api), append(c.names, pod.Name)
	}
	c.connect(r.ctx)
	return r.prepared(&execution{target: strings.Join(c.names, ", "), begin: c.begin, prove: c.prove, end: r.unlessOver(c.end)}, nil)
}

// sameBehaviour reports whether configurations have the same content, treating nil as an empty list.
func sameBehaviour(a, b control.Config) bool {
	if len(a.Failures) == 0 && len(b.Failures) == 0 {
		a.Failures, b.Failures = nil, nil
	}
	if len(a.Calls) == 0 && len(b.Calls) == 0 {
		a.Calls, b.Calls = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// lives reports whether a pod exists and is not terminating.
func (c *census) lives(uid string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.pods[uid]
	return r != nil && !r.leaving
}

func (r *performer) Load(a *fault.Load) error { return r.prepared(r.rate(a, r.lasting), nil) }

// rate changes the clients' rate, at one instant for all, for a limited time unless that is 0.
func (h *executor) rate(l *fault.Load, lasting time.Duration) *execution {
	usual := h.scene.levels.Rate.RPS()
	set := func(ctx context.Context, rps float64) error {
		return h.clients.each(ctx, func(ctx context.Context, _ int, one *client) error {
			_, err := one.api.SetRate(ctx, one.started.Run, rps, time.Time{})
			return err
		})
	}
	var sent int64
	var begun time.Time
	return &execution{
		target: roleClients,
		begin: func(ctx context.Context) error {
			err := set(ctx, l.Rate)
			begun = time.Now()
			if err == nil {
				sent, err = h.clients.sent(ctx)
			}
			return err
		},
		prove: func(ctx context.Context) (string, error) {
			return h.clients.proveRate(ctx, l.Rate, sent, begun, lasting)
		},
		end: h.unlessOver(func(ctx context.Context) error { return set(ctx, usual) }),
	}
}

// sent returns the number of requests that all clients have sent so far.
func (c *clients) sent(ctx context.Context) (int64, error) {
	counts := make([]int64, len(c.all))
	err := c.each(ctx, func(ctx context.Context, i int, one *client) error {
		p, err := one.api.Progress(ctx, one.started.Run)
		counts[i] = p.Sent
		return err
	})
	sum := int64(0)
	for _, n := range counts {
		sum += n
	}
	return sum, err
}

// Bounds within which a rate counts as reached: the number of requests sent since the step began is
// checked every second against what chance allows. A client on a busy machine may fall behind for a
// while and then catches up. The standard deviation of a Poisson count is the square root of its
// mean; it deviates by more than four of them in less than 1 of 10,000 checks.
const (
	rateLook      = time.Second
	rateTime      = 10 * time.Second
	rateTolerance = 0.2
	rateLeast     = 20 // requests
	rateChance    = 4  // standard deviations
)

// proveRate waits until the clients have sent about as many requests as expected by then, for at
// most half of the step's time.
func (c *clients) proveRate(ctx context.Context, rps float64, before int64, since time.Time, lasting time.Duration) (string, error) {
	most := rateTime
	if lasting > 0 {
		most = min(most, lasting/2)
	}
	for {
		if err := wake.Pause(ctx, min(rateLook, most)); err != nil {
			return "", err
		}
		now, err := c.sent(ctx)
		if err != nil {
			return "", err
		}
		took := time.Since(since)
		text, ok := rateReached(rps, now-before, took)
		switch {
		case ok:
			return text, nil
		case took+rateLook > most:
			return "", errors.New(text)
		}
	}
}

// rateReached reports whether the number of requests sent matches a rate.
func rateReached(rps float64, sent int64, took time.Duration) (string, bool) {
	got, want := float64(sent), rps*took.Seconds()
	if slack := max(rateLeast, rateTolerance*want, rateChance*math.Sqrt(want)); got < want-slack || got > want+slack {
		return fmt.Sprintf("the clients sent %.0f requests in %.2f s, not about %.0f", got, took.Seconds(), want), false
	}
	return fmt.Sprintf("the clients sent %.0f requests in %.2f s", got, took.Seconds()), true
}

// handover is one step's change to some workers of a service.
type handover struct {
	turn  *sync.Mutex // held while a step changes the service's workers, which hold one change at a time
	names []string
	apis  []control.Client
	lives func(worker int) bool // reports whether its pod still exists
	set   func(*control.Config)

	before, after []control.Config
}

// connectTime limits the connecting to workers, which one that is paused would prevent.
const connectTime = time.Second

// connect connects to the workers, so that the step begins sooner.
func (c *handover) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var wait sync.WaitGroup
	for _, api := range c.apis {
		wait.Go(func() { _, _ = api.Config(ctx) }) // begin reports a worker that does not answer
	}
	wait.Wait()
}

// begin applies the change, on all workers at once.
func (c *handover) begin(ctx context.Context) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.before, c.after = make([]control.Config, len(c.apis)), make([]control.Config, len(c.apis))
	return control.UpdateAll(ctx, c.apis, func(i int, config *control.Config) {
		c.before[i] = *config
		c.set(config)
		c.after[i] = *config
	})
}

// prove reads back the workers' behaviour.
func (c *handover) prove(ctx context.Context) (string, error) {
	for i, api := range c.apis {
		now, err := api.Config(ctx)
		if err != nil {
			return "", fmt.Errorf("read the configuration of worker %s: %w", c.names[i], err)
		}
		want := c.after[i]
		want.Version, want.Schema = now.Version, now.Schema
		if !sameBehaviour(now, want) {
			return "", fmt.Errorf("worker %s has not applied the change", c.names[i])
		}
	}
	return fmt.Sprintf("%d of %d workers have applied it", len(c.apis), len(c.apis)), nil
}

// end reverts the change on the remaining workers.
func (c *handover) end(ctx context.Context) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	failed := make([]error, len(c.apis))
	var reverts sync.WaitGroup // at once: one that does not answer must not delay the others
	for i, api := range c.apis {
		if !c.lives(i) {
			continue
		}
		reverts.Go(func() {
			_, err := api.Update(ctx, func(config *control.Config) { undo(config, c.before[i], c.after[i]) })
			if err != nil && c.lives(i) {
				failed[i] = fmt.Errorf("worker %s: %w", c.names[i], err)
			}
		})
	}
	reverts.Wait()
	return errors.Join(failed...)
}

// undo restores the configuration values that a change replaced. It keeps later changes by other
// steps.
func undo(now *control.Config, before, after control.Config) {
	to, was, became := reflect.ValueOf(now).Elem(), reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range to.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), became.Field(i).Interface()) {
			to.Field(i).Set(was.Field(i))
		}
	}
}
