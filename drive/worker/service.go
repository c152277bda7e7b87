package worker

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// sampler draws service times in the order of requests: a seed gives one sequence. The
// scheduler determines which of several concurrent requests gets which draw.
type sampler struct {
	config control.ServiceTime
	max    time.Duration
	mu     sync.Mutex // guards random
	random *rand.Rand
}

// newSampler takes a valid config.
func newSampler(config control.ServiceTime) *sampler {
	return &sampler{config: config, random: rand.New(rand.NewPCG(config.Seed, 0x6d657368)),
		max: microseconds(cmp.Or(config.MaxUS, control.MaxServiceUS))}
}

// draw returns the next service time.
//
// A lognormal with shape sigma has mean exp(mu + sigma^2/2), so mu is
// ln(mean) - sigma^2/2.
func (s *sampler) draw() time.Duration {
	us := s.config.MeanUS
	switch s.config.Distribution {
	case control.Fixed: // needs no random number, and no lock
	case control.Exponential:
		s.mu.Lock()
		us *= s.random.ExpFloat64()
		s.mu.Unlock()
	case control.Lognormal:
		s.mu.Lock()
		normal := s.random.NormFloat64()
		s.mu.Unlock()
		sigma := s.config.Sigma
		us = math.Exp(math.Log(us) - sigma*sigma/2 + sigma*normal)
	case control.Recorded:
		s.mu.Lock()
		us = s.config.SamplesUS[s.random.IntN(len(s.config.SamplesUS))]
		s.mu.Unlock()
	default:
		return 0
	}
	return min(microseconds(math.Min(us, control.MaxServiceUS)), s.max)
}

func microseconds(us float64) time.Duration { return time.Duration(math.Round(us * 1e3)) }

// pacer holds requests until their service time is over. Waking a thread and a goroutine
// takes some tens of microseconds, so the pacer asks to be woken that much earlier. It
// tracks the median lateness of its waits, so that the median of held times is right.
type pacer struct {
	timer *wake.Timer
	lead  atomic.Int64 // nanoseconds
}

const (
	maxLead  = 200 * time.Microsecond
	leadStep = time.Microsecond
)

// until waits for an instant, corrected for the cost of waking.
func (p *pacer) until(ctx context.Context, at time.Time) error {
	lead := time.Duration(p.lead.Load())
	early := at.Add(-lead)
	if time.Until(early) <= 0 {
		return ctx.Err()
	}
	if err := p.timer.Until(ctx, early); err != nil {
		return err
	}
	// Track the median by signs: one step up for each late end, one down for each early
	// one. Lost updates of concurrent requests do no harm.
	if time.Until(at) < 0 {
		lead += leadStep
	} else {
		lead -= leadStep
	}
	p.lead.Store(int64(min(max(lead, 0), maxLead)))
	return nil
}
