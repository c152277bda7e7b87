package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// xdsReport is what `meshtrial xds --json` prints.
type xdsReport struct {
	Schema       int         `json:"schema"` // 2
	Addresses    []string    `json:"addresses"`
	Mode         string      `json:"mode"`
	SyncedAfterS float64     `json:"synced_after_s,omitempty"` // until each had been; absent if some never were
	DurationS    float64     `json:"duration_s"`
	Status       xds.Status  `json:"status"`
	Account      xds.Account `json:"account"`
}

func runXDS(ctx context.Context, env *Env, spec xds.Spec, f *xdsFlags) error {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	started := time.Now()
	fleet, err := xds.Start(ctx, spec)
	if err != nil {
		return err
	}
	defer fleet.Stop()
	syncedAfter, interrupted := f.watch(ctx, env, fleet, started)
	report := xdsReport{Schema: 2, Addresses: spec.Addresses, Mode: spec.Mode, SyncedAfterS: syncedAfter.Seconds(), DurationS: time.Since(started).Seconds(),
		Status: fleet.Status(), Account: fleet.Account()}
	report.Account.Sizes, report.Account.ZtunnelSizes = nil, nil
	if f.json {
		err = writeJSON(env.Stdout, report)
	} else {
		err = printXDS(env.Stdout, report)
	}
	last, is := "", &report.Status
	if is.LastError != "" {
		last = "; the last error: " + is.LastError
	}
	switch {
	case err != nil:
		return err
	case interrupted && syncedAfter == 0:
		return errs.WithCode(errors.New("interrupted before all proxies had their configuration"), errs.CodeInterrupted)
	case interrupted:
		return quiet(errs.CodeInterrupted)
	case syncedAfter == 0:
		return errs.WithHint(fmt.Errorf("%d of %d proxies never had their configuration%s", is.Proxies-is.EverSynced, is.Proxies, last),
			"no more of them got it for %v; --patience waits longer", f.patience)
	case is.Connected < is.Proxies && f.behaviour == xds.BehaviourGood:
		return fmt.Errorf("%d of %d proxies had lost their connection at the end%s", is.Proxies-is.Connected, is.Proxies, last)
	}
	return nil
}

// watch says how the fleet stands until ctx ends or the time is over, which
// runs from when each proxy has been synced once: in a reconnect storm they
// never are all at once. Where no more of them come for as long as the
// patience lasts, it runs with those that are there; with none it is over.
// syncedAfter is 0 if some never were.
func (f *xdsFlags) watch(ctx context.Context, env *Env, fleet *xds.Fleet, started time.Time) (syncedAfter time.Duration, interrupted bool) {
	progress := newProgress(env.Stderr)
	defer progress.Clear()
	ticker := time.NewTicker(min(500*time.Millisecond, max(f.patience/4, time.Millisecond)))
	defer ticker.Stop()
	var end <-chan time.Time
	were, last := 0, started // how many had been synced, and when the latest was
	for {
		s := fleet.Status()
		if s.EverSynced > were {
			were, last = s.EverSynced, time.Now()
		}
		all := were == s.Proxies
		if all && syncedAfter == 0 {
			syncedAfter = time.Since(started)
		}
		if f.duration > 0 && end == nil && (all || time.Since(last) >= f.patience) {
			if were == 0 {
				return 0, false
			}
			end = time.After(f.duration)
		}
		quiet := "nothing yet"
		if s.LastMessageUnixNS > 0 {
			quiet = "quiet for " + time.Duration(s.NowUnixNS-s.LastMessageUnixNS).Truncate(100*time.Millisecond).String()
		}
		progress.Say("%d s  %d proxies  %d connected  %d synced  %s  %s", int(time.Since(started).Seconds()), s.Proxies, s.Connected, s.Synced, quiet, s.LastError)
		select {
		case <-ticker.C:
		case <-end:
			return syncedAfter, false
		case <-ctx.Done():
			return syncedAfter, true
		}
	}
}

// printXDS writes the report for people.
func printXDS(out io.Writer, r xdsReport) error {
	var b strings.Builder
	a, s := &r.Account, &r.Status
	fmt.Fprintf(&b, "%s  %s\n%d proxies, %d of them gateways and %d ztunnels, %d connected, %d synced", strings.Join(r.Addresses, " "), r.Mode,
		s.Proxies, s.Gateways, s.Ztunnels, s.Connected, s.Synced)
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
	if s.Ztunnels > 0 { // of the types above that they hold
		fmt.Fprintf(&b, "a ztunnel holds %d bytes of wds, %d of wads\n", a.ZtunnelConfig["wds"], a.ZtunnelConfig["wads"])
	}
	fmt.Fprintf(&b, "\nacknowledged %d, rejected %d, not understood %d\n", acks, nacks, a.Errors)
	for _, why := range slices.Sorted(maps.Keys(a.Reconnects)) {
		fmt.Fprintf(&b, "  reconnects: %d %s\n", a.Reconnects[why], why)
	}
	if a.StoppedReading > 0 {
		fmt.Fprintf(&b, "  %d proxies stopped reading, %d bytes wait for them\n", a.StoppedReading, a.UnreadBytes)
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
	_, err := io.WriteString(out, b.String())
	return err
}
