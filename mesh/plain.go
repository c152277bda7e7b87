package mesh

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// PlainProxy returns the proxy of pods whose levels do not vary: a gateway, or a sidecar
// whose requests are not measured.
func PlainProxy() *Proxy {
	return &Proxy{Levels: record.Cell{study.FactorMTLS: study.MTLSPermissive, study.FactorTelemetry: study.TelemetryOff, study.FactorConcurrency: "2", study.FactorCPULimit: study.CPULimitNone}}
}
