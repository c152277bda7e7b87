package trial

import (
	"context"
	"fmt"
	"math"
	"time"

	loadcontrol "github.com/meshtrial/meshtrial/load/control"
)

// comparisons are how often clocks of hands are compared, each time by the quickest
// of several exchanges. What all of them allow is believed.
const comparisons = 10

// comparedAtOnce are the nodes whose clocks are compared at one time: questions to hundreds at
// once wait for each other, and bounds would be as wide as that takes.
const comparedAtOnce = 8

// clocks compares the hands' clocks with the first one's, by way of this
// machine's. Hands on one node have one clock: one of them is asked.
func (t *trialRun) clocks(ctx context.Context, of func(*hand) *loadcontrol.Offset) error {
	asked := map[string]int{} // by node, the first hand there
	for i, h := range t.hands {
		if _, there := asked[h.pod.Node]; !there {
			asked[h.pod.Node] = i
		}
	}
	seen, turns := make([]loadcontrol.Offset, len(t.hands)), make(chan struct{}, comparedAtOnce)
	err := t.each(func(i int, h *hand) error {
		if asked[h.pod.Node] != i {
			return nil
		}
		turns <- struct{}{}
		defer func() { <-turns }()
		least, most := time.Duration(math.MinInt64), time.Duration(math.MaxInt64)
		for range comparisons {
			o, err := h.api.ClockOffset(ctx)
			if err != nil {
				return t.lost(fmt.Errorf("compare clocks with the generator: %w", err))
			}
			least, most = max(least, o.Offset-o.Uncertainty), min(most, o.Offset+o.Uncertainty)
		}
		if least > most {
			return fmt.Errorf("its clock, or this machine's, was set by %v or more while they were compared", least-most)
		}
		seen[i] = loadcontrol.Offset{Offset: least + (most-least)/2, Uncertainty: (most - least + 1) / 2}
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range t.hands {
		*of(h) = loadcontrol.Offset{}
		if h.pod.Node != t.client.pod.Node {
			there := seen[asked[h.pod.Node]]
			*of(h) = loadcontrol.Offset{Offset: there.Offset - seen[0].Offset, Uncertainty: there.Uncertainty + seen[0].Uncertainty}
		}
	}
	return nil
}

// measureSkew compares the generator's clock with this machine's, and those
// of the observers of other nodes with the generator's; on its own node they
// are one clock. Clocks of kubelets on other nodes are taken for the generator's:
// what they differ by moves a part's window, and leaves its length.
func (t *trialRun) measureSkew(ctx context.Context) error {
	generator, err := t.client.api.ClockOffset(ctx)
	if err != nil {
		return t.lost(fmt.Errorf("compare clocks with the generator: %w", err))
	}
	if generator.Offset.Abs() > generator.Uncertainty {
		t.clockAhead = generator.Offset
	}
	if len(t.hands) > 1 {
		if err := t.clocks(ctx, func(h *hand) *loadcontrol.Offset { return &h.before }); err != nil {
			return err
		}
	}
	for node := range t.targets {
		if node == t.client.pod.Node || t.d.Kubelets {
			continue
		}
		observer, _, err := t.d.Observers[node].ClockOffset(ctx)
		if err != nil {
			return fmt.Errorf("compare clocks with node %s: %w", node, err)
		}
		t.skew[node] = observer - generator.Offset
	}
	return nil
}
