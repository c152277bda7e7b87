package dataplane

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// A server outside the mesh has no proxy. Requests pass those on the client's side, and a gateway
// if they leave by one; without a mesh all destinations outside are one.
func TestDestinations(t *testing.T) {
	for _, tt := range []struct {
		sidecars, destination string
		way                   record.Way
		client, server        string // names of the pods' variants
	}{
		{study.SidecarsBoth, study.DestinationInside, record.Way{record.PartClientProxy, record.PartServerProxy}, "sidecar", "sidecar"},
		{study.SidecarsNone, study.DestinationOutside, nil, "plain", "outside"},
		{study.SidecarsNone, study.DestinationEgress, nil, "plain", "outside"},
		{study.SidecarsClient, study.DestinationOutside, record.Way{record.PartClientProxy}, "sidecar", "outside"},
		{study.SidecarsClient, study.DestinationStatic, record.Way{record.PartClientProxy}, "sidecar", "outside-static"},
		{study.SidecarsClient, study.DestinationEgress, record.Way{record.PartClientProxy, record.PartGateway}, "sidecar", "egress-gateway"},
		{study.SidecarsAmbient, study.DestinationOutside, record.Way{record.PartClientNode}, "ambient", "outside"},
		{study.SidecarsAmbient, study.DestinationDNS, record.Way{record.PartClientNode}, "ambient", "outside-dns"},
		{study.SidecarsWaypoint, study.DestinationDNS, record.Way{record.PartClientNode, record.PartWaypoint}, "waypoint", "outside-dns-waypoint"},
	} {
		t.Run(tt.sidecars+" "+tt.destination, func(t *testing.T) {
			p := studytest.Plan(t, fmt.Sprintf("name: x\nquestion: y?\nsettings: {sidecars: %s, destination: %s}\n", tt.sidecars, tt.destination))
			cell := p.Cells[0]
			client, server := ClientVariant(cell), ServerVariant(cell)
			if way := study.WayOf(cell); !slices.Equal(way, tt.way) || client.Name() != tt.client || server.Name() != tt.server {
				t.Errorf("%v, client %s, server %s", way, client.Name(), server.Name())
			}
			if study.Outside(cell) && server.Sidecar {
				t.Error("the server has a sidecar")
			}
			if got := p.Study.Lacks(record.PartGateway); got != (tt.destination != study.DestinationEgress) {
				t.Errorf("lacks the gateway: %v", got)
			}
		})
	}
}

// What a mesh cannot do is refused, with the reason and what to do.
func TestDestinationsRefused(t *testing.T) {
	many := func(n int) string {
		var planted []string
		for i := range n {
			planted = append(planted, fmt.Sprintf("%dus", i+1))
		}
		return "settings: {sidecars: client, destination: outside-static}\nfactors: {planted: [" + strings.Join(planted, ", ") + "]}"
	}
	for text, want := range map[string]string{
		"settings: {sidecars: both, destination: outside}":                                                        "a server outside the mesh has no sidecar",
		"settings: {sidecars: server, destination: outside-dns}":                                                  "a server outside the mesh has no sidecar",
		"settings: {sidecars: gateway, destination: outside}":                                                     "an ingress gateway leads into the mesh",
		"settings: {sidecars: waypoint, destination: outside}":                                                    "an unknown address is neither",
		"settings: {sidecars: ambient, destination: egress-gateway}":                                              "ztunnel has no routes to an egress gateway",
		"settings: {sidecars: waypoint, destination: egress-gateway}":                                             "ztunnel has no routes to an egress gateway",
		"settings: {sidecars: client, destination: outside-dns, interception: none}":                              "has a port only for Services",
		"mesh: linkerd\nsettings: {sidecars: client, destination: outside}":                                       "works only with Istio",
		"settings: {sidecars: client, destination: abroad}":                                                       "abroad",
		"sizing: {}\nfactors: {sidecars: [none, both, ambient], rate: [20, 200], destination: [inside, outside]}": "sizing is about requests within the mesh",
		"settings: {sidecars: none}\nfactors: {destination: [outside, outside-static]}":                           "",
		many(255): "the limit is 254",
	} {
		s, err := study.Parse([]byte("name: x\nquestion: y?\n"+text+"\n"), "x.yaml", nil)
		if want == "" {
			must.OK(t, err)
			if p, err := study.NewPlan(s, 1); err != nil || len(p.Cells) != 1 {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err == nil || errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.yaml:") || errs.Hint(err) == "" {
			t.Errorf("%s: %v, hint %q", text, err, errs.Hint(err))
		}
	}
}

const generators = `
name: g
question: Q?
settings: {sidecars: none}
factors: {connections: [2, 4]}
baseline: {connections: 2}
`

// A study with one generator has the same cells and text as before there could be several. A study
// that varies their number states it in each cell.
func TestOneGeneratorGoesWithoutSaying(t *testing.T) {
	plain := studytest.Plan(t, generators)
	if bytes.Contains(plain.Study.Marshal(), []byte(study.FactorGenerators)) {
		t.Error("the resolved study names generators")
	}
	for _, text := range []string{generators, generators + "\nvariants: {a: {}, b: {generators: 1, rate: 5}}\n"} {
		for _, set := range []string{"seed=1", "generators=1"} {
			p := studytest.Plan(t, text, set)
			for _, cell := range p.Cells {
				if _, ok := cell[study.FactorGenerators]; ok || GeneratorsIn(cell) != 1 {
					t.Errorf("%s: %v", set, cell)
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

	fixed := studytest.Plan(t, generators, "generators=4")
	if cell := fixed.Cells[0]; GeneratorsIn(cell) != 4 || !study.DataPlane.Matches(cell, record.Cell{study.FactorGenerators: "4"}) {
		t.Errorf("four generators: %v", cell)
	}

	varied := studytest.Plan(t, generators, "generators=[1,4]", "baseline={generators: 1}")
	if len(varied.Cells) != 4 || LoadPods(varied) != 5 {
		t.Fatalf("%d cells, %d load pods", len(varied.Cells), LoadPods(varied))
	}
	for _, cell := range varied.Cells {
		base, ok := varied.BaselineOf(cell)
		if n := cell[study.FactorGenerators]; !ok || base[study.FactorGenerators] != "1" || n != "1" && n != "4" || varied.Short(cell)[study.FactorGenerators] != n {
			t.Errorf("%v is compared with %v", cell, base)
		}
	}
	if label := varied.Label(varied.Cells[1]); label != "2 connections · 4 generators" {
		t.Errorf("it is called %q", label)
	}
}

// There are as many load pods as the cell with the most generators needs, and as many pods for a
// baseline's second turn as that baseline needs.
func TestLoadPods(t *testing.T) {
	p := studytest.Plan(t, generators, "settings={}", "sidecars=[none,both]", "generators=[1,3]", "baseline={generators: 1, sidecars: none}")
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
