package signals

import (
	"fmt"
	"time"
)

// Moment has the samples read at one time.
type Moment struct {
	At      time.Time
	Samples []Sample
}

// Held returns a Source over samples in memory, such as a trial's record of its
// window. Moments must be ascending.
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
