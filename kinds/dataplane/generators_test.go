package dataplane

import (
	"bytes"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const generators = `
name: g
question: Q?
settings: {sidecars: none}
factors: {connections: [2, 4]}
baseline: {connections: 2}
`

// planOf returns a study's plan with overrides.
func planOf(t *testing.T, text string, sets ...string) *study.Plan {
	t.Helper()
	s, err := study.Parse([]byte(text), "g.yaml", sets)
	must.OK(t, err)
	p, err := study.NewPlan(s, 1)
	must.OK(t, err)
	return p
}

// A study with one generator has the same cells and text as before there could be several. A study
// that varies their number states it in each cell.
func TestOneGeneratorGoesWithoutSaying(t *testing.T) {
	plain := planOf(t, generators)
	if bytes.Contains(plain.Study.Marshal(), []byte(study.FactorGenerators)) {
		t.Error("the resolved study names generators")
	}
	for _, text := range []string{generators, generators + "\nvariants: {a: {}, b: {generators: 1, rate: 5}}\n"} {
		for _, set := range []string{"seed=1", "generators=1"} {
			p := planOf(t, text, set)
			for _, cell := range p.Cells {
				if _, ok := cell[study.FactorGenerators]; ok || GeneratorsIn(cell) != 1 {
					t.Errorf("%s: %v", set, cell)
				}
				if l, err := LevelsOf(cell); err != nil || l.Generators != 1 {
					t.Errorf("%+v, %v", l, err)
				}
				if !study.DataPlane.Matches(cell, record.Cell{study.FactorGenerators: "1"}) || study.DataPlane.Matches(cell, record.Cell{study.FactorGenerators: "2"}) {
					t.Errorf("who has one generator is not to be found: %v", cell)
				}
				if base, ok := p.BaselineOf(cell); !ok || base[study.FactorConnections] != "2" {
					t.Errorf("the baseline is %v", base)
				}
			}
		}
	}
	f, _ := study.FactorByName(study.FactorGenerators)
	if level, ok := plain.Study.Setting(f); !ok || level != "1" {
		t.Errorf("the setting is %q", level)
	}

	fixed := planOf(t, generators, "generators=4")
	if cell := fixed.Cells[0]; GeneratorsIn(cell) != 4 || !study.DataPlane.Matches(cell, record.Cell{study.FactorGenerators: "4"}) {
		t.Errorf("four generators: %v", cell)
	}

	varied := planOf(t, generators, "generators=[1,4]", "baseline={generators: 1}")
	if len(varied.Cells) != 4 || LoadPods(varied) != 5 {
		t.Fatalf("%d cells, %d load pods", len(varied.Cells), LoadPods(varied))
	}
	for _, cell := range varied.Cells {
		base, ok := varied.BaselineOf(cell)
		if n := cell[study.FactorGenerators]; !ok || base[study.FactorGenerators] != "1" || n != "1" && n != "4" || varied.Short(cell)[study.FactorGenerators] != n {
			t.Errorf("%v is compared with %v", cell, base)
		}
	}
	// A cell of a run from before there could be several.
	old := varied.Cells[0].With(nil)
	delete(old, study.FactorGenerators)
	if i, ok := varied.Index(old); !ok || varied.Cells[i][study.FactorGenerators] != "1" {
		t.Error("a cell of an older run is not found")
	}
	label := varied.Label(varied.Cells[1])
	if label != "2 connections · 4 generators" {
		t.Errorf("it is called %q", label)
	}
}

// There are as many load pods as the cell with the most generators needs, and as many pods for a
// baseline's second turn as that baseline needs.
func TestLoadPods(t *testing.T) {
	p := planOf(t, generators, "settings={}", "sidecars=[none,both]", "generators=[1,3]", "baseline={generators: 1, sidecars: none}")
	for _, cell := range p.Cells {
		v := ClientVariant(cell)
		if n := Generators(p, v); n != 3 {
			t.Errorf("%s: %d load pods", v.Name(), n)
		}
	}
	if twin := ClientVariant(record.Cell{study.FactorSidecars: study.SidecarsNone}).For(1); Generators(p, twin) != 1 {
		t.Errorf("the baseline's second turn has %d load pods", Generators(p, twin))
	}
}
