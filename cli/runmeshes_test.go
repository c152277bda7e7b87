package cli

import (
	"testing"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/study"
)

// Each mesh that a study can name has its adapter.
func TestAdapters(t *testing.T) {
	for _, name := range study.Meshes() {
		if adapters[name] == nil || newMesh(name, lab.Images{}).Name() != name {
			t.Errorf("mesh %s has no adapter, or another's", name)
		}
	}
	if len(adapters) != len(study.Meshes()) {
		t.Errorf("%d adapters of %d meshes", len(adapters), len(study.Meshes()))
	}
}
