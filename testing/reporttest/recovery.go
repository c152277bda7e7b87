package reporttest

import (
	"testing"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Storm returns the findings of a synthetic run of studies/reconnect-storm: with a
// tenfold limit proxies are back in half the time, and with three replicas one of
// them gets most.
func Storm(t *testing.T) record.Findings {
	return ControlPlane(t, "reconnect-storm", 3, func(trial *record.Trial, _ []record.Event) {
		variant := trial.Cell[study.FactorVariant]
		noise := 1 + 0.01*float64(trial.Order%3+trial.Block)
		const n = 400
		slowest := 40e6 * noise
		if variant == "request-limit-100" {
			slowest /= 2
		}
		d := &record.Disruption{Kind: controlplane.DisruptionDrop, WatchedS: slowest/1e6 + 1, Lost: n, Back: n, Losses: n, Returns: n, Refused: int64(900 * noise), Failed: 3,
			Without: record.LatencyAt(0.5, slowest/2, 0.99, slowest*0.99, 1, slowest), CPUS: 20 * noise, CPUPeak: 1.8 * noise, MemoryPeakBytes: int64(300e6 * noise)}
		for i := range n {
			d.RecoveredUS = append(d.RecoveredUS, int64(slowest*float64(i+1)/n))
		}
		if trial.Cell[controlplane.FactorDisruption] != controlplane.DisruptionDrop {
			d.Kind, d.ReadyUS = trial.Cell[controlplane.FactorDisruption], int64(4.5e6*noise)
		}
		replicas := 1
		if variant == "replicas-3" {
			replicas = 3
			share := 0.8
			d.Imbalance = &share
		}
		for i := range 9 {
			p := record.DisruptionPoint{AtUS: int64(slowest) * int64(i) / 8, Synced: n * i / 8}
			for r := range replicas {
				connections := n * i / 8 / replicas
				if replicas == 3 {
					connections = p.Synced * []int{3, 1, 1}[r] / 5
				}
				p.Replicas = append(p.Replicas, record.ReplicaPoint{Pod: string(rune('a' + r)), Ready: true, Connections: &connections})
			}
			d.Points = append(d.Points, p)
		}
		trial.Control.Disruption = d
	})
}
