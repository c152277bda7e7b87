package dataplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
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
	for _, mtls := range []string{"", study.MTLSStrict, study.MTLSPermissive, study.MTLSOff} {
		for _, telemetry := range []string{study.TelemetryOff, study.TelemetryText, study.TelemetryJSON, study.TelemetryTextStats, study.TelemetryJSONStats} {
			for _, cpu := range []string{"none", "500m", "1"} {
				for _, envoy := range []string{"default", "1.39.0", "1.38.0"} {
					v := SidecarWith(record.Cell{study.FactorMTLS: mtls, study.FactorTelemetry: telemetry, study.FactorConcurrency: "2", study.FactorCPULimit: cpu, study.FactorEnvoy: envoy})
					name := v.Name()
					if strict := mtls == study.MTLSStrict; strict { // as a client's: never in one role
						continue
					}
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
	if err != nil || a != (Levels{study.SidecarsBoth, 3, 500, study.ArrivalPoisson, protocol.HTTP2, 64 << 10, false, 1}) {
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
	s, err := study.Parse([]byte("name: x\nquestion: y?\nfactors: {sidecars: [none, gateway]}\n"), "x.yaml", nil)
	must.OK(t, err)
	plan, err := study.NewPlan(s, 1)
	must.OK(t, err)
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
	if found != 1 || s.Lacks(record.PartGateway) || !s.Lacks(record.PartNode) {
		t.Errorf("cells %v", plan.Cells)
	}
}

// In an ambient mesh neither pod has a sidecar: sidecar settings mean nothing, and the pods differ
// from plain ones.
func TestAmbientVariants(t *testing.T) {
	s, err := study.Parse([]byte("name: x\nquestion: y?\nfactors: {sidecars: [none, both, ambient, waypoint]}\n"), "x.yaml", nil)
	must.OK(t, err)
	plan, err := study.NewPlan(s, 1)
	must.OK(t, err)
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
	if s.Lacks(record.PartNode) || s.Lacks(record.PartServerNode) || s.Lacks(record.PartWaypoint) || !s.Lacks(record.PartGateway) {
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
