package mesh

import (
	"strconv"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// PlainThreads is the number of threads of [PlainProxy].
const PlainThreads = 2

// PlainProxy returns the proxy of pods whose levels do not vary: a gateway, or a sidecar
// whose requests are not measured.
func PlainProxy() *Proxy {
	return &Proxy{Levels: record.Cell{study.FactorMTLS: study.MTLSPermissive, study.FactorTelemetry: study.TelemetryOff, study.FactorConcurrency: strconv.Itoa(PlainThreads), study.FactorCPULimit: study.CPULimitNone}}
}
