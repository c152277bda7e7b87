//go:build verify

package cli_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/labtest"
)

// ztunnelsPushed makes the same changes reach the ztunnels of a lab's nodes alone, and alongside
// simulated ones. What a sidecar received shows that the ztunnels have received it, too.
const ztunnelsPushed = `
name: ztunnels-pushed
question: Is a simulated ztunnel pushed what a real one is?
control: {settle: 1m, quiet: 1s, idle: 0s, trace: [%s]}
settings: {proxies: 1, services: 30, endpoints: 1, namespaces: 2, change: trace}
factors: {ztunnels: [0, 30]}
baseline: {}
measures: [amplification]
blocks: {min: 1, max: 1, limit: 20m}
`

// ztunnelChanges lists changes that reach ztunnels, each with a single write by a single writer.
// Whatever istiod combines into one push, no bytes appear in only one of the cells.
var ztunnelChanges = []string{controlplane.ChangeService, controlplane.ChangeAuthorizationPolicy, controlplane.ChangePodLabels}

// By its own counters, istiod pushes the same to simulated and real ztunnels: as many pushes and
// as many bytes of each type, to within 1%. The real ones' part of the pushes is the total less
// what the simulated ones count. The bytes per real ztunnel are taken from the cell without
// simulated ones, which has the same changes, because a busy istiod may combine several changes
// into one push.
func TestZtunnelPushes(t *testing.T) {
	m, dir := ambientLab(t)
	const nodes, rounds = 3, 12
	m.Up(t, "--ztunnel", dir, "--nodes", fmt.Sprint(nodes))
	var trace []string
	for i := range rounds * len(ztunnelChanges) {
		trace = append(trace, fmt.Sprintf("%v %s", time.Duration(i)*500*time.Millisecond, ztunnelChanges[i%len(ztunnelChanges)]))
	}
	study := labtest.Study(t, fmt.Sprintf(ztunnelsPushed, strings.Join(trace, ", ")))
	run := ran(t, m, 2, append([]string{study}, whenBusy...)...)
	of := map[int]*record.Control{} // by number of simulated ztunnels
	for _, trial := range run.Trials {
		c := trial.Control
		for _, check := range trial.Validity.Checks {
			if !check.OK && slices.Contains([]string{"account", "committed", "istiod-lived", "connected", "understood", "accepted", "pushes"}, check.Name) {
				t.Errorf("trial %s: %s: %s", trial.ID, check.Name, check.Detail)
			}
		}
		before, after := realZtunnels(c)
		if of[c.Ztunnels] = c; before != nodes || after != nodes || c.Committed != len(trace) {
			t.Fatalf("trial %s: %d and %d real ztunnels of %d nodes were connected at the window's edges, %d of %d changes were made", trial.ID, before, after, nodes, c.Committed, len(trace))
		}
	}
	alone, beside := of[0], of[30]
	if alone == nil || beside == nil {
		t.Fatalf("trials have %v", of)
	}
	for kind, changes := range map[string]int{wire.AddressType: 2 * rounds, wire.AuthorizationType: rounds} {
		name := wire.ShortName(kind)
		pushes := func(c *record.Control) float64 { return c.Istiod[`pilot_xds_pushes{type="`+name+`"}`] }
		bytes := func(c *record.Control) float64 {
			return c.Istiod[`pilot_xds_config_size_bytes_sum{type="`+kind+`"}`]
		}
		simulated := float64(beside.ZtunnelWire[name].Responses)
		real := pushes(beside) - simulated
		t.Logf("%s: %v pushes of %v bytes to %d real ztunnels alone; %v of %v to them and to simulated ones, which received %v", name, pushes(alone), bytes(alone), nodes, pushes(beside), bytes(beside), simulated)
		if least := float64(changes) / 2; pushes(alone) < nodes*least || simulated < float64(beside.Ztunnels)*least { // some changes may share a push
			t.Errorf("%s: %v and %v pushes for %d changes", name, pushes(alone), simulated, changes)
			continue
		}
		within(t, name+": pushes to one", real/nodes, simulated/float64(beside.Ztunnels))
		within(t, name+": bytes to one", bytes(alone)/nodes, (bytes(beside)-bytes(alone))/float64(beside.Ztunnels))
	}
}

// realZtunnels returns the number of connected proxies that do not belong to the study at the
// edges of a trial's window. These are the ztunnels of the nodes.
func realZtunnels(c *record.Control) (before, after int) {
	ours := c.Proxies + c.Gateways + c.Ztunnels
	for series, n := range c.IstiodGauges {
		if strings.HasPrefix(series, "pilot_xds{") { // by proxy version
			after += int(n)
		}
	}
	if c.ConnectedBefore != nil {
		before = *c.ConnectedBefore - ours
	}
	return before, after - ours
}

// within checks that the figure of simulated ztunnels is within 1% of that of real ones.
func within(t *testing.T, what string, real, simulated float64) {
	t.Helper()
	if !(math.Abs(simulated-real) <= 0.01*real) {
		t.Errorf("%s: %v of a simulated ztunnel, %v of a real one", what, simulated, real)
	}
}
