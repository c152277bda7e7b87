package gather

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// Metrics evaluates the rules' expressions over a source at a moment. An expression that
// gives no value, or several, is absent from the answer.
func Metrics(ctx context.Context, rules *advice.Rules, s signals.Source, o signals.Options, at time.Time) (map[string]float64, error) {
	out := map[string]float64{}
	for _, expr := range rules.PromQL() {
		if err := one(ctx, out, expr, s, o, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func one(ctx context.Context, out map[string]float64, expr string, s signals.Source, o signals.Options, at time.Time) error {
	samples, err := s.Instant(ctx, o.Expand(expr), at)
	if err != nil {
		return err
	}
	if len(samples) == 1 && !math.IsNaN(samples[0].Value) && !math.IsInf(samples[0].Value, 0) {
		out[expr] = samples[0].Value
	}
	return nil
}

// byReplica tells expressions that take replicas apart.
func byReplica(expr string) bool { return strings.Contains(expr, "by (pod)") }
