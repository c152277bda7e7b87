package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

func runXDS(ctx context.Context, env *Env, spec xds.Spec, f *xdsFlags) error {
	report, interrupted, failure := f.Run(ctx, spec, newProgress(env.Stderr))
	if report.Schema == 0 { // nothing started
		return failure
	}
	err := env.print(f.json, report, xdsText(report))
	if err = cmp.Or(err, failure); err == nil && interrupted {
		return quiet(errs.CodeInterrupted)
	}
	return err
}

// xdsText is the report as text.
func xdsText(r app.FleetReport) string {
	var b strings.Builder
	a, s := &r.Account, &r.Status
	fmt.Fprintf(&b, "%s  %s\n%s, %d of them gateways and %d ztunnels, %d connected, %d synced", strings.Join(r.Addresses, " "), r.Mode,
		words.Plural(s.Proxies, "proxy"), s.Gateways, s.Ztunnels, s.Connected, s.Synced)
	if r.SyncedAfterS > 0 {
		fmt.Fprintf(&b, ", all after %.1f s", r.SyncedAfterS)
	}
	fmt.Fprintf(&b, "\n\n%-6s %10s %14s %12s %12s %14s\n", "type", "responses", "bytes", "resources", "identical", "held bytes")
	var acks, nacks int64
	for _, name := range slices.Sorted(maps.Keys(a.Wire)) {
		w := a.Wire[name]
		acks, nacks = acks+w.Acks, nacks+w.Nacks
		fmt.Fprintf(&b, "%-6s %10d %14d %12d %12d %14d\n", name, w.Responses, w.Bytes, w.Resources, w.Identical, cmp.Or(a.Config[name], a.ZtunnelConfig[name]))
	}
	if s.Ztunnels > 0 { // held by ztunnels, and part of the types above
		fmt.Fprintf(&b, "a ztunnel holds %d bytes of wds, %d of wads\n", a.ZtunnelConfig["wds"], a.ZtunnelConfig["wads"])
	}
	fmt.Fprintf(&b, "\nacknowledged %d, rejected %d, not understood %d\n", acks, nacks, a.Errors)
	for _, why := range slices.Sorted(maps.Keys(a.Reconnects)) {
		fmt.Fprintf(&b, "  reconnects: %d %s\n", a.Reconnects[why], why)
	}
	if s.LastError != "" {
		fmt.Fprintf(&b, "  last error: %s\n", s.LastError)
	}
	if a.Convergence.Count > 0 {
		b.WriteString("convergence")
		for _, q := range record.WithMax() {
			fmt.Fprintf(&b, "  %s %s", q.Head(), micros(a.Convergence.At(q)))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "own CPU      %.3g s user, %.3g s system; memory %.1f MB, %.1f KB a proxy\n", a.CPU.UserS, a.CPU.SystemS, float64(a.RSSBytes)/1e6,
		float64(a.RSSBytes)/1e3/float64(max(s.Proxies, 1)))
	fmt.Fprintf(&b, "own lag      p50 %s  p99 %s  max %s (%s)\n", micros(a.Lag.At(0.5)), micros(a.Lag.At(0.99)), micros(a.Lag.Max()), a.LagSource)
	return b.String()
}
