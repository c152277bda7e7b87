package dataplane

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func TestPlantedLevels(t *testing.T) {
	for text, want := range map[string]string{"none": "none", "nothing": "nothing", "200us": "200us", "0.2ms": "200us", "2ms": "2ms", "bypass": "bypass",
		"0us": "", "1ns": "", "2s": "", "-1ms": "", "much": "", "": ""} {
		got, c := plantedLevel(text)
		if got != want || (c == nil) != (want != "") {
			t.Errorf("%q is %q (%v), want %q", text, got, c, want)
		}
	}
}

// Planted effects have separate pods, with or without sidecars. A cell that plants nothing uses the
// plain variant.
func TestPlantedVariants(t *testing.T) {
	names := map[string]bool{}
	for _, sidecars := range []string{study.SidecarsNone, study.SidecarsBoth} {
		for level, delay := range map[string]time.Duration{PlantedNone: 0, PlantedNothing: 0, "200us": 200 * time.Microsecond} {
			cell := record.Cell{study.FactorSidecars: sidecars, FactorPlanted: level}
			server, client := ServerVariant(cell), ClientVariant(cell)
			if server.Planted() != delay {
				t.Errorf("%s: %v is planted, want %v", cell.Key(), server.Planted(), delay)
			}
			if names[server.Name()] || (level == PlantedNone) != !strings.Contains(server.Name(), "planted") || client.Name() != server.Name() {
				t.Errorf("%s: pods called %s and %s", cell.Key(), client.Name(), server.Name())
			}
			names[server.Name()] = true
		}
	}
}

func TestPlantedNeedsAFixedTime(t *testing.T) {
	const text = `
name: x
question: x
mesh: none
factors: {planted: [none, 200us]}
baseline: {planted: none}
workload: {service_time: {distribution: exponential, mean: 1ms}}
`
	if _, err := study.Parse([]byte(text), "x.yaml", nil); err == nil || !strings.Contains(err.Error(), "added to a fixed service time") {
		t.Errorf("%v", err)
	}
	if _, err := study.Parse([]byte(strings.Replace(text, ", 200us", "", 1)), "x.yaml", nil); err != nil && strings.Contains(err.Error(), "fixed service time") {
		t.Errorf("nothing is planted: %v", err)
	}
}

// A bypass is planted only where there is an egress gateway, and needs one somewhere.
func TestPlantedBypass(t *testing.T) {
	const text = "name: x\nquestion: y?\nsettings: {planted: bypass, sidecars: client}\nfactors: {destination: [outside, egress-gateway]}\n"
	p := studytest.Plan(t, text)
	for _, cell := range p.Cells {
		if leaves := study.Leaving(cell); (cell[FactorPlanted] == PlantedBypass) != leaves || ServerVariant(cell).Bypass() != leaves {
			t.Errorf("%s: planted %s", cell.Key(), cell[FactorPlanted])
		}
	}
	if _, err := study.Parse([]byte(strings.Replace(text, ", egress-gateway", "", 1)), "x.yaml", nil); err == nil || !strings.Contains(err.Error(), "needs an egress gateway to bypass") {
		t.Errorf("%v", err)
	}
}
