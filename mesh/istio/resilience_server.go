package istio

import (
	"fmt"

	"github.com/meshmark/meshmark/mesh"
	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/study"
)

var _ mesh.ServerChecker = (*Mesh)(nil)

// CheckServer compares what a service's Envoy accepts on a port, by its
// inbound listener, with the cell.
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
		Detail: fmt.Sprintf("the proxies of services are %s on port %d; the cell says %s", orNone(have.mtls), port, level)}}
}
