package dataplane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// checkGatewayCells finds requests that a gateway cannot distinguish by host.
func checkGatewayCells(d *study.Decoder, p *study.Plan) {
	for _, cell := range p.Cells {
		if !study.Entering(cell) {
			continue
		}
		if p.Study.Load.TLS {
			d.Fail(d.Pos("load", "tls"), study.CodeConflict, "leave it out, or the level "+study.SidecarsGateway, "the gateway accepts only plain text: it has no certificate for load.tls")
			return
		}
		if name := cell[study.FactorProtocol]; !protocol.Of(name).Headers {
			d.Fail(d.Pos("factors", study.FactorProtocol), study.CodeConflict, fmt.Sprintf("leave such cells out: exclude: [{%s: %s, %s: %s}]", study.FactorSidecars, study.SidecarsGateway, study.FactorProtocol, name),
				"the gateway routes requests by host, which protocol %s does not carry", name)
			return
		}
	}
}

// checkStreamCells finds settings that streams of messages do not have.
func checkStreamCells(d *study.Decoder, p *study.Plan) {
	for _, cell := range p.Cells {
		name := cell[study.FactorProtocol]
		switch {
		case !protocol.Of(name).Streams:
			continue
		case p.Study.Load.TLS:
			d.Fail(d.Pos("load", "tls"), study.CodeConflict, "leave it out, or protocol "+name, "the generator sends streams of protocol %s in plain text only", name)
		case cell[study.FactorKeepAlive] == "false":
			d.Fail(p.Study.Place(study.FactorKeepAlive), study.CodeConflict, fmt.Sprintf("leave such cells out: exclude: [{%s: %s, %s: false}]", study.FactorProtocol, name, study.FactorKeepAlive),
				"protocol %s sends all messages of a connection on one stream, which stays open", name)
		default:
			continue
		}
		return
	}
}

// checkCarriers finds levels of sidecars that the study's mesh does not have.
func checkCarriers(d *study.Decoder, s *study.Study) {
	can := study.CarrierLevels(s.Mesh)
	for _, level := range s.Levels(study.FactorSidecars) {
		switch {
		case slices.Contains(can, level):
			continue
		case s.Mesh == study.MeshNone:
			d.Fail(d.Pos("mesh"), study.CodeConflict, "set sidecars: none, or mesh: istio", "mesh none has no sidecars, but sidecars is %s", level)
		default:
			d.Fail(d.Pos("mesh"), study.CodeConflict, "one of "+strings.Join(can, ", "), "mesh %s does not support sidecars: %s", s.Mesh, level)
		}
		break
	}
}

// checkSizedWays rejects a section sizing if no cell carries requests at both ends, or a server is
// outside the mesh.
func checkSizedWays(d *study.Decoder, s *study.Study) {
	if !d.CheckSizing(s) {
		return
	}
	if !slices.ContainsFunc(s.Written(study.FactorSidecars), func(level string) bool { return study.Carries(study.CarrierOf(level).Way) }) {
		d.FailSizing("set factors: {sidecars: [none, both, ambient]}", "sizing compares ways of carrying requests, and no cell carries them at both ends")
		return
	}
	if slices.ContainsFunc(s.Levels(study.FactorDestination), func(level string) bool { return study.Outside(record.Cell{study.FactorDestination: level}) }) {
		d.FailSizing("leave "+study.FactorDestination+" out", "sizing is about requests within the mesh, and some servers are outside it")
	}
}
