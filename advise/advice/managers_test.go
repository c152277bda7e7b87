package advice

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Manifests for one Deployment that are applied one after the other do not affect each
// other: each has a separate field manager.
func TestSettingsApart(t *testing.T) {
	managers := map[string]bool{}
	tuned := &record.Tuning{Recommended: record.Cell{study.FactorDebounceAfter: "2.5s", controlplane.FactorPushThrottle: "100", controlplane.FactorIstiodCPU: "2"},
		Present: record.Cell{study.FactorDebounceAfter: "100ms", controlplane.FactorPushThrottle: "50", controlplane.FactorIstiodCPU: "1"}}
	Careful(tuned)
	for _, s := range tuned.Settings {
		_, after, _ := strings.Cut(s.YAML, "--field-manager=")
		managers[strings.Fields(after)[0]] = true
	}
	if len(managers) != 3 {
		t.Errorf("three levers are set by the managers %v", managers)
	}
}
