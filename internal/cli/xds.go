package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/xds"
	"github.com/meshmark/meshmark/xds/control"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// xdsFlags are the flags of `meshmark xds`.
type xdsFlags struct {
	control        string
	addresses      []string
	proxies        int
	gateways       int
	mode           string
	security       string
	tokenFile      string
	rootFile       string
	certFile       string
	keyFile        string
	serverName     string
	namespace      string
	serviceAccount string
	prefix         string
	identities     string
	clusterID      string
	istioVersion   string
	behaviour      string
	share          float64
	streams        int
	dnsCapture     bool
	duration       time.Duration
	json           bool
}

func newXDSCommand(env *Env) *cobra.Command {
	f := &xdsFlags{}
	cmd := &cobra.Command{
		Use:   "xds",
		Short: "Connect simulated sidecars to an istiod",
		Long: "xds connects simulated sidecars and gateways to an istiod, takes what it sends and\n" +
			"says how much that was. They subscribe and acknowledge as pilot-agent and Envoy do.\n\n" +
			"A proxy says that it is the pod PREFIX-N in the namespace. Istiod serves one that it\n" +
			"does not know too: what its namespace sees, but nothing inbound. Give pods that exist\n" +
			"with --identities, a file of JSON: [{\"name\": \"a-1\", \"namespace\": \"x\", \"ip\": \"10.0.0.1\"}].\n" +
			"Interrupted, it prints what it has.",
		Example: "  meshmark xds --address 10.96.0.20:15010 --proxies 500 --duration 1m\n" +
			"  meshmark xds --address istiod.istio-system:15012 --security token --token-file token --root-ca root.pem --proxies 50",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.control != "" {
				return serveXDSControl(cmd.Context(), env, f.control)
			}
			spec, err := f.spec()
			if err != nil {
				return err
			}
			return runXDS(cmd.Context(), env, spec, f)
		},
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.StringVar(&f.control, "control", "", "serve requests of a study at HOST:PORT instead")
	fs.StringVar(&f.behaviour, "behaviour", xds.BehaviourGood, strings.Join(xds.Behaviours(), ", "))
	fs.Float64Var(&f.share, "share", 1, "share of the proxies that have --behaviour")
	fs.IntVar(&f.streams, "streams-per-connection", 50, "proxies on one connection; 1 is as in a real mesh")
	fs.DurationVar(&f.duration, "duration", 0, "how long after all are synced (default: until interrupted)")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	cmd.AddCommand(newXDSRecordCommand(env), newXDSServeCommand(env))
	return cmd
}

// register adds the flags that say where to connect and as whom.
func (f *xdsFlags) register(fs *pflag.FlagSet) {
	f.streams = 1
	fs.StringSliceVar(&f.addresses, "address", nil, "istiod, HOST:PORT; may be repeated")
	fs.IntVar(&f.proxies, "proxies", 0, "simulated sidecars")
	fs.IntVar(&f.gateways, "gateways", 0, "simulated gateways")
	fs.StringVar(&f.mode, "mode", xds.ModeDelta, "delta or sotw (state of the world)")
	fs.StringVar(&f.security, "security", xds.SecurityPlaintext, "plaintext, token or mtls")
	fs.StringVar(&f.tokenFile, "token-file", "", "service account token (audience istio-ca)")
	fs.StringVar(&f.rootFile, "root-ca", "", "certificate that istiod's is verified against, PEM")
	fs.StringVar(&f.certFile, "cert", "", "workload certificate chain, PEM")
	fs.StringVar(&f.keyFile, "key", "", "its key, PEM")
	fs.StringVar(&f.serverName, "server-name", "", "name in istiod's certificate (default istiod.istio-system.svc)")
	fs.StringVar(&f.namespace, "namespace", "default", "namespace of the proxies")
	fs.StringVar(&f.serviceAccount, "service-account", "default", "service account of the proxies")
	fs.StringVar(&f.prefix, "pod-prefix", "meshmark", "pods are named PREFIX-0, PREFIX-1...")
	fs.StringVar(&f.identities, "identities", "", "file with the pods that proxies say they are, JSON")
	fs.StringVar(&f.clusterID, "cluster-id", "", "istiod's cluster ID (default Kubernetes)")
	fs.StringVar(&f.istioVersion, "istio-version", "", "version the proxies say they have (default 1.31.0)")
	fs.BoolVar(&f.dnsCapture, "dns-capture", false, "sidecars ask for the table of names too")
}

// gcPercent keeps the fleet's memory close to what it holds: it allocates
// little, so that collecting twice as often costs next to nothing.
const gcPercent = 50

// serveXDSControl is the xds role: fleets on request, until ctx ends.
func serveXDSControl(ctx context.Context, env *Env, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errs.WithHint(fmt.Errorf("xds control: %w", err), "--control takes a free HOST:PORT, for instance 127.0.0.1:15983")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	fmt.Fprintf(env.Stderr, "control %s\n", listener.Addr())
	return control.NewServer(ctx, Version()).Serve(listener)
}

// spec makes a fleet of the flags.
func (f *xdsFlags) spec() (xds.Spec, error) {
	spec := xds.DefaultSpec("")
	spec.Addresses = f.addresses
	if len(f.addresses) == 0 {
		return spec, errs.WithHint(errs.Usage("no --address"), "meshmark xds --address HOST:15010 --proxies 100")
	}
	spec.Mode, spec.StreamsPerConnection, spec.DNSCapture = f.mode, f.streams, f.dnsCapture
	spec.Mesh = xds.Mesh{ClusterID: f.clusterID, IstioVersion: f.istioVersion}
	if f.proxies < 0 || f.gateways < 0 || !(f.share >= 0 && f.share <= 1) {
		return spec, errs.Usage("--proxies and --gateways are not negative, --share is from 0 to 1")
	}
	if f.proxies+f.gateways > 1_000_000 {
		return spec, errs.Usage("%d proxies: want at most 1000000", f.proxies+f.gateways)
	}
	if err := f.addProxies(&spec); err != nil {
		return spec, err
	}
	spec.Security = xds.Security{Mode: f.security, ServerName: f.serverName}
	var token, chain, key string
	for _, file := range []struct {
		path string
		into *string
	}{{f.tokenFile, &token}, {f.rootFile, &spec.Security.RootCA}, {f.certFile, &chain}, {f.keyFile, &key}} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return spec, errs.WithCode(err, errs.CodeUsage)
		}
		*file.into = string(data)
	}
	if token != "" {
		spec.Security.Tokens = map[string]string{"": token}
	}
	if chain != "" || key != "" {
		spec.Security.Certificates = map[string]xds.Certificate{"": {Chain: chain, Key: key}}
	}
	return spec, spec.Validate()
}

// addProxies fills in who the proxies are.
func (f *xdsFlags) addProxies(spec *xds.Spec) error {
	var known []xds.Proxy
	if f.identities != "" {
		data, err := os.ReadFile(f.identities)
		if err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		if err := json.Unmarshal(data, &known); err != nil {
			return errs.Usage("%s: %v", f.identities, err)
		}
	}
	total := f.proxies + f.gateways
	if total == 0 {
		total = len(known)
	}
	if len(known) > 0 && total > len(known) {
		return errs.Usage("%d proxies, but only %d identities in %s", total, len(known), f.identities)
	}
	for i := range total {
		p := xds.Proxy{Name: fmt.Sprintf("%s-%d", f.prefix, i), Namespace: f.namespace, ServiceAccount: f.serviceAccount,
			IP: fmt.Sprintf("10.%d.%d.%d", 200+i>>16&31, i>>8&255, i&255)}
		if known != nil {
			p = known[i]
		}
		if i >= total-f.gateways {
			p.Type = xds.NodeRouter
		}
		// Spread evenly over the fleet.
		if int(float64(i+1)*f.share) > int(float64(i)*f.share) {
			p.Behaviour = f.behaviour
		}
		spec.Proxies = append(spec.Proxies, p)
	}
	return nil
}

// xdsReport is what `meshmark xds --json` prints.
type xdsReport struct {
	Schema       int                `json:"schema"`
	Addresses    []string           `json:"addresses"`
	Mode         string             `json:"mode"`
	Proxies      int                `json:"proxies"`
	Gateways     int                `json:"gateways"`
	Connected    int                `json:"connected"`
	Synced       int                `json:"synced"`
	SyncedAfterS float64            `json:"synced_after_s,omitempty"` // until all were; absent if they never were
	DurationS    float64            `json:"duration_s"`
	Bytes        map[string]int64   `json:"bytes"`
	Pushes       map[string]int64   `json:"pushes"`
	Resources    map[string]int64   `json:"resources"`
	Identical    map[string]int64   `json:"identical"`
	Acks         int64              `json:"acks"`
	Nacks        int64              `json:"nacks"`
	Errors       int64              `json:"errors"`
	Reconnects   map[string]int64   `json:"reconnects"`
	ConfigBytes  map[string]int64   `json:"config_bytes"`
	CPU          xdsCPU             `json:"cpu_s"`
	RSSBytes     int64              `json:"rss_bytes"`
	Convergence  map[string]float64 `json:"convergence_ms"`
	Changes      int64              `json:"convergence_count"`
	Lag          record.Lag         `json:"lag_us"`
	LastError    string             `json:"last_error,omitempty"`
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
	progress := newProgress(env.Stderr)
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	var syncedAfter time.Duration
	var end <-chan time.Time
	interrupted := false
wait:
	for {
		s := fleet.Status()
		if s.Synced == s.Proxies && syncedAfter == 0 {
			syncedAfter = time.Since(started)
			if f.duration > 0 {
				end = time.After(f.duration)
			}
		}
		quiet := "nothing yet"
		if s.LastMessageUnixNS > 0 {
			quiet = "quiet for " + time.Duration(s.NowUnixNS-s.LastMessageUnixNS).Truncate(100*time.Millisecond).String()
		}
		progress.say("%d s  %d proxies  %d connected  %d synced  %s  %s", int(time.Since(started).Seconds()), s.Proxies, s.Connected, s.Synced, quiet, s.LastError)
		select {
		case <-ticker.C:
		case <-end:
			break wait
		case <-ctx.Done():
			interrupted = true
			break wait
		}
	}
	progress.clear()
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
	}
	return nil
}

func newXDSReport(spec xds.Spec, a xds.Account, s xds.Status) xdsReport {
	r := xdsReport{
		Schema: 1, Addresses: spec.Addresses, Mode: spec.Mode, Proxies: s.Proxies, Gateways: s.Gateways, Connected: a.Connected, Synced: a.Synced,
		Bytes: map[string]int64{}, Pushes: map[string]int64{}, Resources: map[string]int64{}, Identical: map[string]int64{},
		Errors: a.Errors, Reconnects: a.Reconnects, ConfigBytes: a.Config,
		CPU: xdsCPU{User: a.CPU.UserS, System: a.CPU.SystemS}, RSSBytes: a.RSSBytes, Lag: a.Lag, LastError: s.LastError, Changes: a.Convergence.Count,
		Convergence: map[string]float64{"p50": a.Convergence.P50 / 1e3, "p90": a.Convergence.P90 / 1e3, "p99": a.Convergence.P99 / 1e3,
			"p999": a.Convergence.P999 / 1e3, "max": a.Convergence.Max / 1e3},
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
	fmt.Fprintf(&b, "%s  %s\n%d proxies, %d of them gateways, %d connected, %d synced", strings.Join(r.Addresses, " "), r.Mode, r.Proxies, r.Gateways, r.Connected, r.Synced)
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
		fmt.Fprintf(&b, "%-6s %10d %14d %12d %12d %14d\n", name, r.Pushes[name], r.Bytes[name], r.Resources[name], r.Identical[name], r.ConfigBytes[name])
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
	if r.LastError != "" {
		fmt.Fprintf(&b, "  last error: %s\n", r.LastError)
	}
	if r.Changes > 0 {
		c := r.Convergence
		fmt.Fprintf(&b, "convergence  p50 %s  p90 %s  p99 %s  p99.9 %s  max %s\n", micros(c["p50"]*1e3), micros(c["p90"]*1e3), micros(c["p99"]*1e3),
			micros(c["p999"]*1e3), micros(c["max"]*1e3))
	}
	fmt.Fprintf(&b, "own CPU      %.3g s user, %.3g s system; memory %.1f MB, %.1f KB a proxy\n", r.CPU.User, r.CPU.System, float64(r.RSSBytes)/1e6,
		float64(r.RSSBytes)/1e3/float64(max(r.Proxies, 1)))
	fmt.Fprintf(&b, "own lag      p50 %s  p99 %s  max %s\n", micros(r.Lag.P50), micros(r.Lag.P99), micros(r.Lag.Max))
	_, err := io.WriteString(out, b.String())
	return err
}
