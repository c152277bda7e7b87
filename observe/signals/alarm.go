package signals

import (
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
	o = o.withDefaults()
	expr := o.expand(Quantile(0.99, MetricLatency, "{$i}", "$w"))
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

// Alarm evaluates a rule over time as Prometheus does: it becomes pending at
// the first evaluation above the bound, and fires once that was For ago and
// every evaluation since was above the bound too.
type Alarm struct {
	rule  Rule
	state string
	since time.Time
	fired []Span
}

// NewAlarm returns an alarm without evaluations.
func NewAlarm(rule Rule) *Alarm { return &Alarm{rule: rule, state: StateUnknown} }

// Step records the latency, in seconds, at a moment; NaN means that nothing was
// observed. Moments must be ascending.
func (a *Alarm) Step(at time.Time, latency float64) {
	if !(latency > a.rule.Above) {
		if a.state == StateFiring {
			a.fired[len(a.fired)-1].ToMS = at.UnixMilli()
		}
		a.state, a.since = StateInactive, time.Time{}
		if math.IsNaN(latency) {
			a.state = StateUnknown
		}
		return
	}
	if a.since.IsZero() {
		a.since = at
	}
	switch {
	case at.Sub(a.since) < a.rule.For:
		a.state = StatePending
	case a.state != StateFiring:
		a.state = StateFiring
		a.fired = append(a.fired, Span{FromMS: at.UnixMilli()})
	}
}

// Alert returns the state after the last step.
func (a *Alarm) Alert() Alert {
	out := Alert{Name: a.rule.Name, Severity: a.rule.Severity, AboveS: a.rule.Above, ForS: a.rule.For.Seconds(), State: a.state}
	if !a.since.IsZero() {
		out.SinceMS = a.since.UnixMilli()
	}
	out.Fired = append(out.Fired, a.fired...)
	return out
}

// Watch evaluates all rules against a source.
type Watch struct {
	source Source
	alarms []*Alarm
}

// NewWatch returns a watch over the rules of the options.
func NewWatch(s Source, o Options) *Watch {
	w := &Watch{source: s}
	for _, rule := range Rules(o) {
		w.alarms = append(w.alarms, NewAlarm(rule))
	}
	return w
}

// Replay evaluates the rules at every step of a past period.
func (w *Watch) Replay(ctx context.Context, from, to time.Time, step time.Duration) error {
	for _, alarm := range w.alarms {
		tracks, err := w.source.Range(ctx, alarm.rule.Expr, from, to, step)
		if err != nil {
			return err
		}
		values := map[int64]float64{}
		for _, t := range tracks {
			for _, p := range t.Points {
				values[p.MS] = p.Value
			}
		}
		for at := from; !at.After(to); at = at.Add(step) {
			latency, ok := values[at.UnixMilli()]
			if !ok {
				latency = math.NaN()
			}
			alarm.Step(at, latency)
		}
	}
	return nil
}

// Alerts returns the state of every rule.
func (w *Watch) Alerts() []Alert {
	var out []Alert
	for _, a := range w.alarms {
		out = append(out, a.Alert())
	}
	return out
}
