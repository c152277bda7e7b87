package dataplane

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func TestVariants(t *testing.T) {
	p := studytest.Plan(t, studytest.Minimal+`factors:
  sidecars: [none, server, client, both]
  connections: [2, 64]
  telemetry: [off, access-log-json+stats]
`)
	names := func(vs []Variant) string {
		var out []string
		for _, v := range vs {
			out = append(out, v.Name())
		}
		return strings.Join(out, " ")
	}
	if got, want := names(ClientVariants(p)), "plain plain-twin sidecar sidecar-log-json-stats"; got != want {
		t.Errorf("load pods: %s, want %s", got, want)
	}
	if got, want := names(ServerVariants(p)), "plain plain-twin sidecar-mtls-permissive sidecar-mtls-permissive-log-json-stats sidecar sidecar-log-json-stats"; got != want {
		t.Errorf("worker pods: %s, want %s", got, want)
	}
	levels := record.Cell{study.FactorMTLS: study.MTLSPermissive, study.FactorTelemetry: study.TelemetryJSONStats, study.FactorConcurrency: "16", study.FactorCPULimit: "1500m", study.FactorEnvoy: "1.39.0"}
	long, other := SidecarWith(levels), SidecarWith(levels.With(record.Cell{study.FactorEnvoy: "1.38.0"}))
	if len(long.Name()) > maxVariantName || long.Name() == other.Name() {
		t.Errorf("%s, %s", long.Name(), other.Name())
	}
}

// Names are distinct and valid in Kubernetes, whatever the levels.
func TestVariantNames(t *testing.T) {
	seen := map[string]Variant{}
	for _, mtls := range []string{"", study.MTLSPermissive, study.MTLSOff} { // strict is a client's: never in one role
		for _, telemetry := range []string{study.TelemetryOff, study.TelemetryText, study.TelemetryJSON, study.TelemetryTextStats, study.TelemetryJSONStats} {
			for _, cpu := range []string{"none", "500m", "1"} {
				for _, envoy := range []string{"default", "1.39.0", "1.38.0"} {
					v := SidecarWith(record.Cell{study.FactorMTLS: mtls, study.FactorTelemetry: telemetry, study.FactorConcurrency: "2", study.FactorCPULimit: cpu, study.FactorEnvoy: envoy})
					name := v.Name()
					if was, ok := seen[name]; ok {
						t.Fatalf("%+v and %+v are both %s", was, v, name)
					}
					seen[name] = v
					if len(name) > maxVariantName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
						t.Errorf("name %q", name)
					}
				}
			}
		}
	}
}

func TestLevelsOf(t *testing.T) {
	p := studytest.Plan(t, studytest.Minimal+"factors: {rate: [500, max], payload: [64KiB]}\nsettings: {connections: 3, keep_alive: false, protocol: http2}\n")
	a, err := LevelsOf(p.Cells[0])
	if err != nil || a != (Levels{Connections: 3, Rate: 500, Arrival: study.ArrivalPoisson, Protocol: protocol.HTTP2, PayloadBytes: 64 << 10}) {
		t.Errorf("%+v %v", a, err)
	}
	if b, err := LevelsOf(p.Cells[1]); err != nil || !b.Rate.IsMax() || b.Arrival != study.NotApplicable {
		t.Errorf("%+v %v", b, err)
	}
	if _, err := LevelsOf(record.Cell{}); err == nil {
		t.Error("an empty cell is read")
	}
}

// Requests that enter through a gateway only pass the gateway: neither pod has a sidecar, and the
// server differs from a plain one, since its Service leads to the gateway.
func TestEnteringVariants(t *testing.T) {
	plan := studytest.Plan(t, "name: x\nquestion: y?\nfactors: {sidecars: [none, gateway]}\n")
	found := 0
	for _, cell := range plan.Cells {
		if study.Entering(cell) {
			found++
			if server := ServerVariant(cell); server.Sidecar || server.Carrier != study.SidecarsGateway || server.Name() != "gateway" {
				t.Errorf("variant %+v", server)
			}
			if way := study.WayOf(cell); !slices.Equal(way.OnOneNode(), record.Way{record.PartGateway}) {
				t.Errorf("its requests go %v", way)
			}
		}
	}
	if found != 1 || plan.Study.Lacks(record.PartGateway) || !plan.Study.Lacks(record.PartNode) {
		t.Errorf("cells %v", plan.Cells)
	}
}

// In an ambient mesh neither pod has a sidecar: sidecar settings mean nothing, and the pods differ
// from plain ones.
func TestAmbientVariants(t *testing.T) {
	plan := studytest.Plan(t, "name: x\nquestion: y?\nfactors: {sidecars: [none, both, ambient, waypoint]}\n")
	ways := map[string]record.Way{"ambient": {record.PartClientNode, record.PartServerNode},
		"waypoint": {record.PartClientNode, record.PartWaypoint, record.PartServerNode}}
	found := 0
	for _, cell := range plan.Cells {
		level := cell[study.FactorSidecars]
		want, is := ways[level]
		if study.Ambient(cell) != is || study.Waypoint(cell) != (level == "waypoint") {
			t.Errorf("%v is ambient: %v, with a waypoint: %v", cell, study.Ambient(cell), study.Waypoint(cell))
		}
		if !is {
			continue
		}
		found++
		client, server := ClientVariant(cell), ServerVariant(cell)
		if client.Sidecar || server.Sidecar || client.Carrier != level || client.Name() != level || server.Name() != level {
			t.Errorf("variants %+v and %+v", client, server)
		}
		if way := study.WayOf(cell); !slices.Equal(way, want) || !way.Shared() {
			t.Errorf("its requests go %v", way)
		}
		if cell[study.FactorMTLS] != study.NotApplicable || cell[study.FactorConcurrency] != study.NotApplicable {
			t.Errorf("settings of sidecars take effect: %v", cell)
		}
	}
	if found != 2 || len(plan.Cells) != 4 || len(ServerVariants(plan)) < 4 {
		t.Errorf("cells %v", plan.Cells)
	}
	if plan.Study.Lacks(record.PartNode) || plan.Study.Lacks(record.PartServerNode) || plan.Study.Lacks(record.PartWaypoint) || !plan.Study.Lacks(record.PartGateway) {
		t.Error("which shared proxies there are is not known")
	}
	names := study.DataPlane.FindingNames()
	for part, want := range map[string]bool{record.PartNode: true, record.PartServerNode: true, record.PartWaypoint: true, record.PartGateway: true} {
		if got := slices.Contains(names, "cpu_"+part+"_per_request"); got != want {
			t.Errorf("a study can name the CPU of %s: %v", part, got)
		}
	}
	if name, many := study.CarrierSubject("ambient"); name != "ztunnel" || many {
		t.Errorf("in words it is %q", name)
	}
}

// TestCalloutsAtWaypoint: a waypoint's cells differ by the filters that ask a service, which have
// Services of their own; other levels do not apply to them.
func TestCalloutsAtWaypoint(t *testing.T) {
	plan := studytest.Plan(t, "name: a\nquestion: b\nfactors:\n  sidecars: [server, waypoint]\n  filters: [none, lua, ext-authz-grpc]\n")
	names := map[string]string{}
	for _, cell := range plan.Cells {
		v := ServerVariant(cell)
		names[v.Name()] = v.Level(FactorFilters)
		if c := ClientVariant(cell); c.Level(FactorFilters) != "" {
			t.Errorf("cell %s: the client's pod has the filters too", plan.Label(cell))
		}
	}
	for name, level := range map[string]string{"waypoint": "", "waypoint-ext-authz-grpc": "ext-authz-grpc", "sidecar-mtls-permissive-lua": "lua"} {
		if got, ok := names[name]; !ok || got != level {
			t.Errorf("%s has the filters %q (%v), expected %q: %v", name, got, ok, level, names)
		}
	}
	if len(plan.Cells) != 5 {
		t.Errorf("%d cells, expected 5: at the waypoint, lua does not apply", len(plan.Cells))
	}
	if _, err := study.Parse([]byte("name: a\nquestion: b\nsettings: {sidecars: waypoint, filters: ext-authz-grpc+lua}\n"), "a.yaml", nil); err == nil || !strings.Contains(err.Error(), "a.yaml:3:") || !strings.Contains(err.Error(), "a waypoint can only have") {
		t.Errorf("lua at a waypoint: %v", err)
	}
}

// TestCalloutsOutside: filters of a waypoint do not apply to servers outside the mesh.
func TestCalloutsOutside(t *testing.T) {
	plan := studytest.Plan(t, "name: a\nquestion: b\nsettings: {sidecars: waypoint}\nfactors:\n  destination: [inside, outside-dns]\n  filters: [none, ext-authz-grpc]\n")
	got := map[string]int{}
	for _, cell := range plan.Cells {
		got[cell[study.FactorDestination]+" "+ServerVariant(cell).Level(FactorFilters)]++
		if study.Outside(cell) && cell[FactorFilters] != study.NotApplicable {
			t.Errorf("cell %s has the filters %s", plan.Label(cell), cell[FactorFilters])
		}
	}
	if want := map[string]int{"inside ": 1, "inside ext-authz-grpc": 1, "outside-dns ": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

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
