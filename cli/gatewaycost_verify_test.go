//go:build verify

package cli_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// gatewayCost is a short form of the study gateway-cost, with the protocols added.
const gatewayCost = `
name: gateway-cost-short
question: What does an ingress gateway cost?
settings: {rate: 200, connections: 4}
factors: {sidecars: [none, gateway], protocol: [http1, grpc]}
baseline: {sidecars: none}
measures: [latency, cpu, memory, threads]
warmup: {min: 1s, max: 3s}
window: 2s
interval: 1s
blocks: {min: 1, max: 1, limit: 20m}
`

// Requests enter through an ingress gateway, as its own counter proves, and are compared with the
// same pods without it. The gateway has its CPU, memory and threads.
func TestGatewayCost(t *testing.T) {
	m := labtest.New(t)
	file, out := labtest.Study(t, gatewayCost), filepath.Join(t.TempDir(), "run")
	m.Up(t)
	m.Measured(t, "run", file, "--out", out, "--limit", "unattributed=100%")
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	carried, valid := 0, false
	for _, trial := range run.Trials {
		for _, c := range trial.Validity.Checks {
			if !c.OK && !labtest.OfTheMachine(trial, c) {
				t.Errorf("trial %s of %v: %s: %s", trial.ID, trial.Cell, c.Name, c.Detail)
			}
		}
		if !study.Entering(trial.Cell) {
			continue
		}
		carried++
		valid = valid || trial.Validity.Valid
		if !slices.Equal(trial.Way.Parts(), []string{record.PartGateway}) {
			t.Errorf("trial %s went %v", trial.ID, trial.Way)
		}
		if trial.Load == nil || trial.Load.Completed == 0 || trial.CPU[record.PartGateway].TotalS() <= 0 || trial.Memory[record.PartGateway].PSSBytes < 1<<20 || len(trial.Threads[record.PartGateway].Threads) == 0 {
			t.Errorf("trial %s: %+v; the gateway used %+v, %+v", trial.ID, trial.Load, trial.CPU[record.PartGateway], trial.Memory[record.PartGateway])
			continue
		}
		t.Logf("trial %s of %s: the gateway took %.0f us a request, and has %d bytes", trial.ID, trial.Cell[study.FactorProtocol], 1e6*trial.CPU[record.PartGateway].TotalS()/float64(trial.Load.Completed), trial.Memory[record.PartGateway].PSSBytes)
	}
	if carried != 2 {
		t.Fatalf("%d trials through the gateway", carried)
	}
	if valid { // otherwise this machine was too busy for figures
		wantFindings(t, run, "cpu_gateway_per_request", "memory_gateway")
	}
}
