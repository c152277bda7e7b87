package controlplane

import (
	"bytes"
	"testing"
)

// A study with one simulator has the same cells and text as before there could be several. A study
// that varies their number states it in each cell.
func TestOneSimulatorGoesWithoutSaying(t *testing.T) {
	plain := controlPlan(t, "control: {}\nfactors: {services: [10, 20]}\n")
	if bytes.Contains(plain.Study.Marshal(), []byte(FactorSimulators)) {
		t.Error("the resolved study names simulators")
	}
	one := controlPlan(t, "control: {}\nfactors: {services: [10, 20]}\n", "simulators=1")
	for i, cell := range one.Cells {
		l, err := LevelsOf(cell)
		if _, said := cell[FactorSimulators]; said || err != nil || l.Simulators != 1 || SimulatorsIn(cell) != 1 || cell.Key() != plain.Cells[i].Key() {
			t.Errorf("%v: %+v, %v", cell, l, err)
		}
	}
	if Simulators(one) != 1 {
		t.Errorf("%d pods", Simulators(one))
	}
	several := controlPlan(t, "control: {}\nsettings: {proxies: 0, gateways: 4}\nfactors: {simulators: [1, 3]}\nbaseline: {simulators: 1}\n")
	if len(several.Cells) != 2 || Simulators(several) != 3 {
		t.Fatalf("%d cells, %d pods", len(several.Cells), Simulators(several))
	}
	for i, cell := range several.Cells {
		if l, err := LevelsOf(cell); err != nil || l.Simulators != 1+2*i || SimulatorsIn(cell) != l.Simulators {
			t.Errorf("%v: %+v, %v", cell, l, err)
		}
		if base, ok := several.BaselineOf(cell); !ok || base[FactorSimulators] != "1" {
			t.Errorf("%v is compared with %v", cell, base)
		}
	}
}
