package gather

import (
	"context"
	"math"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// Metrics answers the quantities' queries from a source at one moment. A query that
// returns no value, or several, has no answer.
func Metrics(ctx context.Context, s signals.Source, o signals.Options, at time.Time) (map[*advice.Quantity]float64,
	error) {
	out := map[*advice.Quantity]float64{}
	for _, q := range advice.Quantities() {
		if err := answer(ctx, out, q, s, o, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func answer(ctx context.Context, out map[*advice.Quantity]float64, q *advice.Quantity, s signals.Source,
	o signals.Options, at time.Time) error {
	if q.Query == "" {
		return nil
	}
	samples, err := s.Instant(ctx, o.Expand(q.Query), at)
	if err != nil {
		return err
	}
	if len(samples) == 1 && !math.IsNaN(samples[0].Value) && !math.IsInf(samples[0].Value, 0) {
		out[q] = samples[0].Value
	}
	return nil
}
