package app

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// Fleet describes simulated proxies: which istiod they connect to, and with which identities.
type Fleet struct {
	Addresses                            []string
	Sidecars, Gateways, Ztunnels         int
	Mode                                 string
	Security, CAAddress, ServerName      string
	TokenFile, RootFile, Chain, Key      string // files; Chain and Key belong to a workload certificate
	Namespace, ServiceAccount            string
	TrustDomain, ClusterID, IstioVersion string
	Prefix                               string // of pod names
	Identities                           string // a file that lists the pods the proxies identify as
	Behaviour                            string
	Share                                float64 // the share of proxies with this behaviour
	Streams                              int     // per connection
	DNSCapture, HBONE                    bool
}

// Limits in bytes for the files that describe a fleet: identities for a million pods, and tokens,
// keys and certificates.
const (
	maxIdentities = 256 << 20
	MaxSecret     = 1 << 20
)

// maxFleet is the largest number of proxies that one program simulates.
const maxFleet = 1_000_000

// Spec returns the simulator's specification. read reads a file of at most limit bytes.
func (f *Fleet) Spec(read func(path string, limit int64) ([]byte, error)) (xds.Spec, error) {
	spec := xds.DefaultSpec("")
	spec.Addresses = f.Addresses
	spec.Mode, spec.StreamsPerConnection, spec.DNSCapture, spec.HBONE = f.Mode, f.Streams, f.DNSCapture, f.HBONE
	spec.Mesh = xds.Mesh{ClusterID: f.ClusterID, IstioVersion: f.IstioVersion}
	if f.Sidecars < 0 || f.Gateways < 0 || f.Ztunnels < 0 || !(f.Share >= 0 && f.Share <= 1) {
		return spec, errs.Usage("--proxies, --gateways and --ztunnels must not be negative, --share must be 0 to 1")
	}
	if n := f.Sidecars + f.Gateways + f.Ztunnels; n > maxFleet {
		return spec, errs.Usage("%d proxies: at most %d are allowed", n, maxFleet)
	}
	var err error
	if spec.Proxies, err = f.proxies(read); err != nil {
		return spec, err
	}
	spec.Security = xds.Security{Mode: f.Security, ServerName: f.ServerName, CAAddress: f.CAAddress, TrustDomain: f.TrustDomain}
	var token, chain, key string
	for _, file := range []struct {
		path string
		into *string
	}{{f.TokenFile, &token}, {f.RootFile, &spec.Security.RootCA}, {f.Chain, &chain}, {f.Key, &key}} {
		if file.path == "" {
			continue
		}
		data, err := read(file.path, MaxSecret)
		if err != nil {
			return spec, err
		}
		*file.into = string(data)
	}
	if token != "" {
		identity := "" // for any; but a certificate obtained with the token is for one service account
		if f.Security == xds.SecurityMTLS {
			identity = f.Namespace + "/" + f.ServiceAccount
		}
		spec.Security.Tokens = map[string]string{identity: token}
	}
	if chain != "" || key != "" {
		spec.Security.Certificates = map[string]xds.Certificate{"": {Chain: chain, Key: key}}
	}
	return spec, spec.Validate()
}

// proxies returns the identities of the proxies.
func (f *Fleet) proxies(read func(path string, limit int64) ([]byte, error)) ([]xds.Proxy, error) {
	var known []xds.Proxy
	if f.Identities != "" {
		data, err := read(f.Identities, maxIdentities)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &known); err != nil {
			return nil, errs.Usage("%s: %v", f.Identities, err)
		}
	}
	total := f.Sidecars + f.Gateways + f.Ztunnels
	if total == 0 {
		total = len(known)
	}
	switch {
	case f.Identities != "" && len(known) == 0:
		return nil, errs.Usage("%s names no pod", f.Identities)
	case total == 0:
		return nil, errs.WithHint(errs.Usage("no proxy to connect"), "--proxies 100, --gateways 2, or --identities FILE")
	case known != nil && total > len(known):
		return nil, errs.Usage("%d proxies, but only %d identities in %s", total, len(known), f.Identities)
	}
	out := make([]xds.Proxy, total)
	for i := range out {
		p := xds.Proxy{Name: fmt.Sprintf("%s-%d", f.Prefix, i), Namespace: f.Namespace, ServiceAccount: f.ServiceAccount,
			IP: fmt.Sprintf("10.%d.%d.%d", 200+i>>16&31, i>>8&255, i&255)}
		if known != nil {
			p = known[i]
		}
		switch {
		case i >= total-f.Ztunnels:
			p.Type = xds.NodeZtunnel
		case i >= total-f.Ztunnels-f.Gateways:
			p.Type = xds.NodeRouter
		}
		// Spread the behaviour evenly over the fleet.
		if int(float64(i+1)*f.Share) > int(float64(i)*f.Share) {
			p.Behaviour = f.Behaviour
		}
		out[i] = p
	}
	return out, nil
}

// FleetReport is what `meshtrial xds --json` prints.
type FleetReport struct {
	Schema       int         `json:"schema"` // 2
	Addresses    []string    `json:"addresses"`
	Mode         string      `json:"mode"`
	SyncedAfterS float64     `json:"synced_after_s,omitempty"` // until all had synced once; else absent
	DurationS    float64     `json:"duration_s"`
	Status       xds.Status  `json:"status"`
	Account      xds.Account `json:"account"`
}

// FleetGCPercent keeps a fleet's memory close to its live heap. A fleet allocates little, so
// collecting twice as often costs almost nothing.
const FleetGCPercent = 50

// FleetTimes limits how long a fleet runs.
type FleetTimes struct {
	Duration time.Duration // once all have synced; 0: until ctx ends
	Patience time.Duration // how long to wait for the rest while no further proxy syncs
}

// Run connects a fleet until its time is over or ctx ends; interrupted reports the latter. The
// report is valid even if err says that proxies failed.
func (t FleetTimes) Run(ctx context.Context, spec xds.Spec, progress Progress) (report FleetReport, interrupted bool, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(FleetGCPercent))
	started := time.Now()
	fleet, err := xds.Start(ctx, spec)
	if err != nil {
		return report, false, err
	}
	defer fleet.Stop()
	syncedAfter, interrupted := t.watch(ctx, progress, fleet, started)
	report = FleetReport{Schema: 2, Addresses: spec.Addresses, Mode: spec.Mode, SyncedAfterS: syncedAfter.Seconds(), DurationS: time.Since(started).Seconds(),
		Status: fleet.Status(), Account: fleet.Account()}
	report.Account.Sizes, report.Account.ZtunnelSizes = nil, nil
	last, is := "", &report.Status
	if is.LastError != "" {
		last = "; the last error: " + is.LastError
	}
	good := !slices.ContainsFunc(spec.Proxies, func(p xds.Proxy) bool { return p.Behaviour != "" && p.Behaviour != xds.BehaviourGood })
	switch {
	case interrupted && syncedAfter == 0:
		err = errs.WithCode(errors.New("interrupted before all proxies were synced"), errs.CodeInterrupted)
	case interrupted:
	case syncedAfter == 0:
		err = errs.WithHint(fmt.Errorf("%d of %d proxies never synced%s", is.Proxies-is.EverSynced, is.Proxies, last),
			"no other proxy synced for %v; --patience waits longer", t.Patience)
	case is.Connected < is.Proxies && good:
		err = fmt.Errorf("%d of %d proxies had lost their connection at the end%s", is.Proxies-is.Connected, is.Proxies, last)
	}
	return report, interrupted, err
}

// watch shows the state of the fleet until ctx ends or the time is over. The time starts when
// every proxy has been synced once; in a reconnect storm they are never all synced at the same
// moment. If no further proxy syncs for the length of the patience, the time starts with those
// that have, and watch returns if none has. syncedAfter is 0 if some proxies never synced.
func (t FleetTimes) watch(ctx context.Context, progress Progress, fleet *xds.Fleet, started time.Time) (syncedAfter time.Duration, interrupted bool) {
	defer progress.Clear()
	ticker := time.NewTicker(min(500*time.Millisecond, max(t.Patience/4, time.Millisecond)))
	defer ticker.Stop()
	var end <-chan time.Time
	were, last := 0, started // how many had synced, and when the last one did
	for {
		s := fleet.Status()
		if s.EverSynced > were {
			were, last = s.EverSynced, time.Now()
		}
		all := were == s.Proxies
		if all && syncedAfter == 0 {
			syncedAfter = time.Since(started)
		}
		if t.Duration > 0 && end == nil && (all || time.Since(last) >= t.Patience) {
			if were == 0 {
				return 0, false
			}
			end = time.After(t.Duration)
		}
		quiet := "nothing yet"
		if s.LastMessageUnixNS > 0 {
			quiet = "quiet for " + time.Duration(s.NowUnixNS-s.LastMessageUnixNS).Truncate(100*time.Millisecond).String()
		}
		progress.Say("%d s  %s  %d connected  %d synced  %s  %s", int(time.Since(started).Seconds()), words.Plural(s.Proxies, "proxy"), s.Connected, s.Synced, quiet, s.LastError)
		select {
		case <-ticker.C:
		case <-end:
			return syncedAfter, false
		case <-ctx.Done():
			return syncedAfter, true
		}
	}
}

// RecordProxy connects one simulated proxy and, once it has its configuration, writes the
// configuration as istiod sent it, compressed with gzip.
func RecordProxy(ctx context.Context, spec xds.Spec, out io.Writer, progress Progress) (held xds.Holding, err error) {
	defer progress.Clear()
	z := gzip.NewWriter(out)
	held, err = xds.Record(ctx, spec, z, func(s xds.Status) {
		progress.Say("%d connected, %d synced  %s", s.Connected, s.Synced, s.LastError)
	})
	if err != nil {
		return held, err
	}
	return held, z.Close()
}
