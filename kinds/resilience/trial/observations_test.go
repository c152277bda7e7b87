package trial

import (
	"testing"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Nodes that share a machine count it once each; the sum has it once.
func TestMachineOfSeveralNodes(t *testing.T) {
	for name, c := range map[string]struct {
		boots map[string]string // by node
		want  float64
	}{
		"one node":                 {map[string]string{"a": "1"}, 2},
		"a local lab's":            {map[string]string{"a": "1", "b": "1", "c": "1"}, 2},
		"a cluster's":              {map[string]string{"a": "1", "b": "2", "c": "3"}, 6},
		"of nobody knows which":    {map[string]string{"a": "", "b": ""}, 4},
		"some of them on one host": {map[string]string{"a": "1", "b": "1", "c": "2"}, 4},
	} {
		l := &looks{machine: [2]map[string]observe.MachineSample{{}, {}}}
		for node, boot := range c.boots {
			l.machine[0][node] = observe.MachineSample{AtUnixNS: 1, BootID: boot}
			l.machine[1][node] = observe.MachineSample{AtUnixNS: 1e9 + 1, BootID: boot, UserNS: 2e9}
		}
		if got := l.cpu()[record.PartMachine].TotalS(); got != c.want {
			t.Errorf("%s: %v s, want %v", name, got, c.want)
		}
	}
}
