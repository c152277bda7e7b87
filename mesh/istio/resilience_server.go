package istio

import (
	"fmt"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

var _ mesh.ServerChecker = (*Mesh)(nil)

// CheckServer compares what a service's Envoy accepts on a port, according to
// its inbound listener, with the cell.
func (*Mesh) CheckServer(config []byte, port int, cell record.Cell) []record.Check {
	level := cell[study.FactorMTLS]
	if level == "" || level == study.NotApplicable {
		return nil
	}
	have, err := readDump(config, port)
	if err != nil {
		return []record.Check{{Name: "server-mtls", Detail: err.Error()}}
	}
	return []record.Check{{Name: "server-mtls", OK: have.mtls == level,
		Detail: fmt.Sprintf("the proxies of services are %s on port %d; the cell sets %s", orNone(have.mtls), port, level)}}
}
