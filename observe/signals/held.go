package signals

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Moment is what was read at one time.
type Moment struct {
	At      time.Time
	Samples []Sample
}

// Held is a Source over samples that the caller holds, such as what a trial's
// record says of its window. Moments must rise.
func Held(name string, moments []Moment) (*Series, error) {
	m := newMemory()
	for _, moment := range moments {
		b := newBatch(m)
		for _, s := range moment.Samples {
			of := labels.NewScratchBuilder(len(s.Labels) + 1)
			of.Add(metricName, s.Name)
			for _, label := range slices.Sorted(maps.Keys(s.Labels)) {
				of.Add(label, s.Labels[label])
			}
			of.Sort()
			if _, err := b.sample(nil, of.Labels(), moment.At.UnixMilli(), s.Value); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", name, of.Labels(), err)
			}
		}
		_, samples := b.records()
		for _, s := range b.fresh {
			m.define(s)
		}
		if err := m.add(samples); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return &Series{memory: m, engine: newEngine(), name: name}, nil
}

// Expand writes an expression out for a source: $w is the window, {$i} selects
// istiod's metrics, $p its process, $c its container, and $d its pod.
func (o Options) Expand(expr string) string { return o.withDefaults().expand(expr) }
