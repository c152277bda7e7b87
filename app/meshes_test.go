package app

import (
	"testing"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Each mesh that a study can name has its adapter.
func TestAdapters(t *testing.T) {
	for _, name := range study.Meshes() {
		if adapters[name] == nil || Mesh(name, lab.Images{}).Name() != name {
			t.Errorf("mesh %s has no adapter, or another's", name)
		}
	}
	if len(adapters) != len(study.Meshes()) {
		t.Errorf("%d adapters of %d meshes", len(adapters), len(study.Meshes()))
	}
}

func TestPlanAmbient(t *testing.T) {
	for level, want := range map[string]bool{"both": false, "ambient": true, "waypoint": true} {
		plan := &study.Plan{Study: &study.Study{Mesh: "istio"}, Cells: []record.Cell{{"sidecars": "none"}, {"sidecars": level}}}
		if got := planAmbient(plan); got != want {
			t.Errorf("a plan with sidecars %s is ambient: %v", level, got)
		}
	}
}
