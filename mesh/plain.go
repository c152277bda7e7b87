package mesh

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// PlainProxy is the proxy of pods whose levels are not what is varied: a gateway, or a
// sidecar whose requests are not what is measured.
func PlainProxy() *Proxy {
	return &Proxy{Levels: record.Cell{study.FactorMTLS: study.MTLSPermissive, study.FactorTelemetry: study.TelemetryOff, study.FactorConcurrency: "2", study.FactorCPULimit: study.CPULimitNone}}
}
