package trial

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// idleMemory reads each part's memory before the trial's first request, for studies that price
// memory. It returns nil for others, and with kubelets, whose samples may date from the previous
// trial. The reading walks page tables, so it precedes the start of the generator.
func (t *trialRun) idleMemory(ctx context.Context) (map[string]int64, error) {
	if t.d.Kubelets || dataplane.Of(t.o.Study).Bill == nil || !t.o.Study.Measured(study.MeasureMemory) {
		return nil, nil
	}
	out := map[string]int64{}
	for node, targets := range t.targets {
		shot, err := t.d.Observers[node].Snapshot(ctx, targets, true)
		if err != nil {
			return nil, fmt.Errorf("memory before the trial, node %s: %w", node, err)
		}
		for _, target := range targets {
			if m := shot.Targets[target.Name].Memory; m != nil {
				out[partOf(target.Name)] += m.Record().PSSBytes
			}
		}
	}
	return out, nil
}

// withIdle adds idle memory to the memory at the end of the window.
func withIdle(memory map[string]record.Memory, idle map[string]int64) {
	for part, m := range memory {
		m.IdlePSSBytes = idle[part]
		memory[part] = m
	}
}
