package resilience

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/study"
)

// A mesh that is registered after this package was initialized is a level like any other.
func TestRegisteredMesh(t *testing.T) {
	study.AddMesh(study.Mesh{Name: "other"})
	s := parse(t, named+fromEntry+quiet+"factors: {mesh: [none, other]}\n")
	if got := s.Levels(study.FactorMesh); !slices.Equal(got, []string{"none", "other"}) {
		t.Errorf("meshes %q", got)
	}
}
