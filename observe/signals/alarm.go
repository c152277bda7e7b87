package signals

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"
)

// Severities of alerts.
const (
	SeverityWarning  = "warning"
	SeverityCritical = "critical"
)

// States of an alert, as Prometheus names them.
const (
	StateInactive = "inactive"
	StatePending  = "pending" // above the bound, but not for long enough
	StateFiring   = "firing"
	StateUnknown  = "unknown" // the metric is missing or nothing was observed
)

// Rule is an alert: a latency that stays above a bound.
type Rule struct {
	Name     string
	Severity string
	Expr     string // the latency, in seconds
	Above    float64
	For      time.Duration
	Summary  string
}

// Rules returns the two alerts: warning if the p99 of
// pilot_proxy_convergence_time stays above 1 s for 10 s, critical above 2 s.
func Rules(o Options) []Rule {
	expr := o.Expand(Quantile(0.99, MetricLatency, "{$i}", "$w"))
	rule := func(name, severity string, above float64) Rule {
		return Rule{name, severity, expr, above, 10 * time.Second,
			fmt.Sprintf("The p99 of istiod's convergence time has been over %g s for 10 s.", above)}
	}
	return []Rule{
		rule("IstiodConvergenceSlow", SeverityWarning, 1),
		rule("IstiodConvergenceVerySlow", SeverityCritical, 2),
	}
}

// Alert is the state of a rule.
type Alert struct {
	Name     string  `json:"name"`
	Severity string  `json:"severity"`
	AboveS   float64 `json:"above_s"`
	ForS     float64 `json:"for_s"`
	State    string  `json:"state"`
	// SinceMS is when the latency exceeded the bound; 0 if it does not.
	SinceMS int64 `json:"since_unix_ms,omitempty"`
	// Fired lists the spans in which the alert fired. The end is 0 while it is
	// firing.
	Fired []Span `json:"fired,omitempty"`
}

// Span is a period of time, in Unix milliseconds.
type Span struct {
	FromMS int64 `json:"from_unix_ms"`
	ToMS   int64 `json:"to_unix_ms,omitempty"`
}

// step records the latency, in seconds, at a moment; NaN means that nothing was observed. Moments must be
// ascending.
func (a *Alert) step(ms int64, latency float64) {
	if !(latency > a.AboveS) {
		if a.State == StateFiring {
			a.Fired[len(a.Fired)-1].ToMS = ms
		}
		a.State, a.SinceMS = StateInactive, 0
		if math.IsNaN(latency) {
			a.State = StateUnknown
		}
		return
	}
	a.SinceMS = cmp.Or(a.SinceMS, ms)
	switch {
	case float64(ms-a.SinceMS) < 1000*a.ForS:
		a.State = StatePending
	case a.State != StateFiring:
		a.State = StateFiring
		a.Fired = append(a.Fired, Span{FromMS: ms})
	}
}

// Alerts evaluates the rules at every step of a past period as Prometheus does: an alert becomes pending at the
// first evaluation above the bound, and fires once that was For ago and every evaluation since was above the bound
// too.
func Alerts(ctx context.Context, s Source, o Options, from, to time.Time, step time.Duration) ([]Alert, error) {
	var out []Alert
	for _, rule := range Rules(o) {
		tracks, err := s.Range(ctx, rule.Expr, from, to, step)
		if err != nil {
			return out, err
		}
		values := map[int64]float64{}
		for _, t := range tracks {
			for _, p := range t.Points {
				values[p.MS] = p.Value
			}
		}
		a := newAlert(rule)
		for at := from; !at.After(to); at = at.Add(step) {
			latency, ok := values[at.UnixMilli()]
			if !ok {
				latency = math.NaN()
			}
			a.step(at.UnixMilli(), latency)
		}
		out = append(out, a)
	}
	return out, nil
}

func newAlert(rule Rule) Alert {
	return Alert{Name: rule.Name, Severity: rule.Severity, AboveS: rule.Above, ForS: rule.For.Seconds(), State: StateUnknown}
}
