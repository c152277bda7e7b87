package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	Schema             int                `json:"schema"`
	Addresses          []string           `json:"addresses"`
	Mode               string             `json:"mode"`
	Proxies            int                `json:"proxies"`
	Gateways           int                `json:"gateways"`
	Ztunnels           int                `json:"ztunnels,omitempty"`
	Connected          int                `json:"connected"`
	Synced             int                `json:"synced"`
	EverSynced         int                `json:"ever_synced"`
	SyncedAfterS       float64            `json:"synced_after_s,omitempty"` // until each had been; absent if some never were
	DurationS          float64            `json:"duration_s"`
	Bytes              map[string]int64   `json:"bytes"`
	Pushes             map[string]int64   `json:"pushes"`
	Resources          map[string]int64   `json:"resources"`
	Identical          map[string]int64   `json:"identical"`
	Acks               int64              `json:"acks"`
	Nacks              int64              `json:"nacks"`
	Errors             int64              `json:"errors"`
	Reconnects         map[string]int64   `json:"reconnects"`
	ConfigBytes        map[string]int64   `json:"config_bytes"`
	ZtunnelConfigBytes map[string]int64   `json:"ztunnel_config_bytes,omitempty"`
	CPU                xdsCPU             `json:"cpu_s"`
	RSSBytes           int64              `json:"rss_bytes"`
	Convergence        map[string]float64 `json:"convergence_ms"`
	Changes            int64              `json:"convergence_count"`
	Lag                record.Quantiles   `json:"lag_us"`
	LagSource          string             `json:"lag_source"`
	Stopped            int                `json:"stopped_reading,omitempty"`
	UnreadBytes        int64              `json:"unread_bytes,omitempty"`
	LastError          string             `json:"last_error,omitempty"`
}

type xdsCPU struct {
	User   float64 `json:"user"`
	System float64 `json:"system"`
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
	report := newXDSReport(spec, fleet.Account(), fleet.Status())
	report.DurationS, report.SyncedAfterS = time.Since(started).Seconds(), syncedAfter.Seconds()
	if f.json {
		err = writeJSON(env.Stdout, report)
	} else {
		err = printXDS(env.Stdout, report)
	}
	switch {
	case err != nil:
		return err
	case interrupted && syncedAfter == 0:
		return errs.WithCode(errors.New("interrupted before all proxies had their configuration"), errs.CodeInterrupted)
	case interrupted:
		return quiet(errs.CodeInterrupted)
	case syncedAfter == 0:
		return errs.WithHint(fmt.Errorf("%d of %d proxies never had their configuration%s", report.Proxies-report.EverSynced, report.Proxies, prefixedBy("; the last error: ", report.LastError)),
			"no more of them got it for %v; --patience waits longer", f.patience)
	case report.Connected < report.Proxies && f.behaviour == xds.BehaviourGood:
		return fmt.Errorf("%d of %d proxies had lost their connection at the end%s", report.Proxies-report.Connected, report.Proxies, prefixedBy("; the last error: ", report.LastError))
	}
	return nil
}

func prefixedBy(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
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

func newXDSReport(spec xds.Spec, a xds.Account, s xds.Status) xdsReport {
	r := xdsReport{
		Schema: 1, Addresses: spec.Addresses, Mode: spec.Mode, Proxies: s.Proxies, Gateways: s.Gateways, Ztunnels: s.Ztunnels, Connected: a.Connected, Synced: a.Synced, EverSynced: s.EverSynced,
		LagSource: a.LagSource, Stopped: a.StoppedReading, UnreadBytes: a.UnreadBytes,
		Bytes: map[string]int64{}, Pushes: map[string]int64{}, Resources: map[string]int64{}, Identical: map[string]int64{},
		Errors: a.Errors, Reconnects: a.Reconnects, ConfigBytes: a.Config, ZtunnelConfigBytes: a.ZtunnelConfig,
		CPU: xdsCPU{User: a.CPU.UserS, System: a.CPU.SystemS}, RSSBytes: a.RSSBytes, Lag: a.Lag, LastError: s.LastError, Changes: a.Convergence.Count,
		Convergence: map[string]float64{},
	}
	for _, q := range record.WithMax() {
		r.Convergence[q.Name()] = a.Convergence.At(q) / 1e3
	}
	for name, w := range a.Wire {
		r.Bytes[name], r.Pushes[name], r.Resources[name], r.Identical[name] = w.Bytes, w.Responses, w.Resources, w.Identical
		r.Acks += w.Acks
		r.Nacks += w.Nacks
	}
	return r
}

// printXDS writes the report for people.
func printXDS(out io.Writer, r xdsReport) error {
	var b strings.Builder
	ztunnels := ""
	if r.Ztunnels > 0 {
		ztunnels = fmt.Sprintf(" and %d ztunnels", r.Ztunnels)
	}
	fmt.Fprintf(&b, "%s  %s\n%d proxies, %d of them gateways%s, %d connected, %d synced", strings.Join(r.Addresses, " "), r.Mode, r.Proxies, r.Gateways, ztunnels, r.Connected, r.Synced)
	if r.SyncedAfterS > 0 {
		fmt.Fprintf(&b, ", all after %.1f s", r.SyncedAfterS)
	}
	fmt.Fprintf(&b, "\n\n%-6s %10s %14s %12s %12s %14s\n", "type", "responses", "bytes", "resources", "identical", "held bytes")
	types := make([]string, 0, len(r.Bytes))
	for name := range r.Bytes {
		types = append(types, name)
	}
	slices.Sort(types)
	for _, name := range types {
		held := r.ConfigBytes[name]
		if held == 0 {
			held = r.ZtunnelConfigBytes[name]
		}
		fmt.Fprintf(&b, "%-6s %10d %14d %12d %12d %14d\n", name, r.Pushes[name], r.Bytes[name], r.Resources[name], r.Identical[name], held)
	}
	if r.Ztunnels > 0 { // of the types above that they hold
		fmt.Fprintf(&b, "a ztunnel holds %d bytes of wds, %d of wads\n", r.ZtunnelConfigBytes["wds"], r.ZtunnelConfigBytes["wads"])
	}
	fmt.Fprintf(&b, "\nacknowledged %d, rejected %d, not understood %d\n", r.Acks, r.Nacks, r.Errors)
	reasons := make([]string, 0, len(r.Reconnects))
	for name := range r.Reconnects {
		reasons = append(reasons, name)
	}
	slices.Sort(reasons)
	for _, name := range reasons {
		fmt.Fprintf(&b, "  reconnects: %d %s\n", r.Reconnects[name], name)
	}
	if r.Stopped > 0 {
		fmt.Fprintf(&b, "  %d proxies stopped reading, %d bytes wait for them\n", r.Stopped, r.UnreadBytes)
	}
	if r.LastError != "" {
		fmt.Fprintf(&b, "  last error: %s\n", r.LastError)
	}
	if r.Changes > 0 {
		b.WriteString("convergence")
		for _, q := range record.WithMax() {
			fmt.Fprintf(&b, "  %s %s", q.Head(), micros(r.Convergence[q.Name()]*1e3))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "own CPU      %.3g s user, %.3g s system; memory %.1f MB, %.1f KB a proxy\n", r.CPU.User, r.CPU.System, float64(r.RSSBytes)/1e6,
		float64(r.RSSBytes)/1e3/float64(max(r.Proxies, 1)))
	fmt.Fprintf(&b, "own lag      p50 %s  p99 %s  max %s (%s)\n", micros(r.Lag.At(0.5)), micros(r.Lag.At(0.99)), micros(r.Lag.Max()), r.LagSource)
	_, err := io.WriteString(out, b.String())
	return err
}
