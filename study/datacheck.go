package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// checkGatewayCells finds requests that a gateway could not tell apart by their host.
func (d *Decoder) checkGatewayCells(p *Plan) {
	for _, cell := range p.Cells {
		if !Entering(cell) {
			continue
		}
		if p.Study.Load.TLS {
			d.Fail(d.Pos("load", "tls"), CodeConflict, "leave it out, or the level "+SidecarsGateway, "the gateway takes requests in plain text: it has no certificate for load.tls")
			return
		}
		if name := cell[FactorProtocol]; !protocol.Of(name).Headers {
			d.Fail(d.Pos("factors", FactorProtocol), CodeConflict, fmt.Sprintf("as exclude: [{%s: %s, %s: %s}]", FactorSidecars, SidecarsGateway, FactorProtocol, name),
				"the gateway knows requests by their host, which protocol %s does not carry", name)
			return
		}
	}
}

// checkCarriers finds who cannot carry requests in the study's mesh.
func (d *Decoder) checkCarriers(s *Study) {
	can := CarrierLevels(s.Mesh)
	for _, level := range s.Levels(FactorSidecars) {
		switch {
		case slices.Contains(can, level):
			continue
		case s.Mesh == MeshNone:
			d.Fail(d.Pos("mesh"), CodeConflict, "sidecars must be none, or the mesh istio", "mesh none has no sidecars, but sidecars: %s is asked for", level)
		default:
			d.Fail(d.Pos("mesh"), CodeConflict, "one of "+strings.Join(can, ", "), "mesh %s cannot carry requests by sidecars: %s", s.Mesh, level)
		}
		break
	}
}

// checkSizedWays refuses a section sizing of cells in none of which requests are carried at
// both ends.
func (d *Decoder) checkSizedWays(s *Study) {
	if d.CheckSizing(s) && !slices.ContainsFunc(s.Written(FactorSidecars), func(level string) bool { return Carries(CarrierOf(level).Way) }) {
		d.FailSizing("set factors: {sidecars: [none, both, ambient]}", "sizing is about who carries requests, and no cell has them carried at both ends")
	}
}
