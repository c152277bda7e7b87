package signals

import (
	"fmt"
	"time"
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
		if err := b.samples(moment.At.UnixMilli(), moment.Samples); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
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
