package cli

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/drive/xds/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// xdsFlags holds the flags of `meshtrial xds`.
type xdsFlags struct {
	app.Fleet
	app.FleetTimes
	control string
	alone   time.Duration
	json    bool
}

func newXDSCommand(env *Env) *cobra.Command {
	f := &xdsFlags{}
	cmd := &cobra.Command{
		Use:   "xds",
		Short: "Connect simulated sidecars to an istiod",
		Long: "Connect simulated sidecars, gateways and ztunnels to an istiod, receive what it sends, and\n" +
			"report how much that was. They subscribe and acknowledge like pilot-agent with Envoy, or\n" +
			"like ztunnel.\n\n" +
			"Each proxy identifies as pod PREFIX-N in --namespace. Istiod also serves unknown pods:\n" +
			"they get what their namespace sees, but no inbound configuration. To use existing pods,\n" +
			"give --identities, a JSON file: [{\"name\": \"a-1\", \"namespace\": \"x\", \"ip\": \"10.0.0.1\"}].\n" +
			"When interrupted, it prints the results so far.",
		Example: "  meshtrial xds --address 10.96.0.20:15010 --proxies 500 --duration 1m\n" +
			"  meshtrial xds --address istiod.istio-system:15012 --security token --token-file token --root-ca root.pem --proxies 50",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.control != "" {
				others := cmd.Flags().NFlag() - 1
				if cmd.Flags().Changed("alone") {
					others--
				}
				if others > 0 {
					return errs.Usage("--control allows no other flag but --alone: the study sends the rest")
				}
				return serveXDSControl(cmd.Context(), env, f.control, f.alone)
			}
			spec, err := f.spec(cmd.Context(), "meshtrial xds --address HOST:15010 --proxies 100")
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("duration") && f.Duration <= 0 || f.Patience <= 0 {
				return errs.Usage("--duration and --patience must be more than 0")
			}
			return runXDS(cmd.Context(), env, spec, f)
		},
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.StringVar(&f.control, "control", "", "serve as a study's role: accept requests at this loopback `HOST:PORT`")
	addAlone(fs, &f.alone)
	fs.StringVar(&f.Behaviour, "behaviour", xds.BehaviourGood, strings.Join(xds.Behaviours(), ", "))
	fs.Float64Var(&f.Share, "share", 1, "share of proxies with --behaviour")
	fs.IntVar(&f.Streams, "streams-per-connection", 50, "proxies per connection; a real mesh has 1")
	fs.DurationVar(&f.Duration, "duration", 0, "how long to continue once every proxy has synced (default: until interrupted)")
	fs.DurationVar(&f.Patience, "patience", 30*time.Second, "with --duration: stop waiting for the rest after this long without another proxy syncing")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	cmd.AddCommand(newXDSRecordCommand(env))
	return cmd
}

// register adds the flags that say where to connect and with which identities.
func (f *xdsFlags) register(fs *pflag.FlagSet) {
	f.Streams = 1
	fs.StringSliceVar(&f.Addresses, "address", nil, "`HOST:PORT` of istiod; may be repeated")
	fs.IntVar(&f.Sidecars, "proxies", 0, "simulated sidecars")
	fs.IntVar(&f.Gateways, "gateways", 0, "simulated gateways")
	fs.IntVar(&f.Ztunnels, "ztunnels", 0, "simulated ztunnels, which require istiod in ambient mode")
	fs.StringVar(&f.Mode, "mode", xds.ModeDelta, "delta or sotw (state of the world)")
	fs.StringVar(&f.Security, "security", xds.SecurityPlaintext, "plaintext, token or mtls")
	fs.StringVar(&f.TokenFile, "token-file", "", "`FILE` with a service account token (audience istio-ca)")
	fs.StringVar(&f.RootFile, "root-ca", "", "`FILE` with the CA certificates that istiod is verified against, PEM")
	fs.StringVar(&f.Chain, "cert", "", "`FILE` with a workload certificate chain, PEM")
	fs.StringVar(&f.Key, "key", "", "`FILE` with the key of --cert, PEM")
	fs.StringVar(&f.CAAddress, "ca-address", "", "with --security mtls and a token instead of --cert: `HOST:PORT` that signs a certificate (default the first --address)")
	fs.StringVar(&f.ServerName, "server-name", "", "name in istiod's certificate (default istiod.istio-system.svc)")
	fs.StringVar(&f.Namespace, "namespace", "default", "namespace of the proxies")
	fs.StringVar(&f.ServiceAccount, "service-account", "default", "service account of the proxies")
	fs.StringVar(&f.TrustDomain, "trust-domain", "", "with --security mtls and a token: the mesh's trust domain (default: that of the signed certificate)")
	fs.StringVar(&f.Prefix, "pod-prefix", "meshtrial", "pods are named PREFIX-0, PREFIX-1...")
	fs.StringVar(&f.Identities, "identities", "", "`FILE` with the pods that the proxies identify as, JSON")
	fs.StringVar(&f.ClusterID, "cluster-id", "", "istiod's cluster ID (default Kubernetes)")
	fs.StringVar(&f.IstioVersion, "istio-version", "", "`version` that the proxies report (default 1.31.0)")
	fs.BoolVar(&f.DNSCapture, "dns-capture", false, "sidecars also request the DNS name table")
	fs.BoolVar(&f.HBONE, "hbone", false, "sidecars and gateways also request all workloads, as with ISTIO_META_ENABLE_HBONE")
}

// spec returns the fleet that the flags describe. example is a working command, for the error
// message.
func (f *xdsFlags) spec(ctx context.Context, example string) (xds.Spec, error) {
	if len(f.Addresses) == 0 {
		return xds.Spec{}, errs.WithHint(errs.Usage("no --address"), "%s", example)
	}
	return f.Spec(func(path string, limit int64) ([]byte, error) { return readInput(ctx, path, limit) })
}

// serveXDSControl serves the xds role: it runs fleets on request until ctx ends, or until no
// caller has been heard from for alone.
func serveXDSControl(ctx context.Context, env *Env, address string, alone time.Duration) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("xds control: %w", err), errs.CodeUsage), "--control takes a free HOST:PORT, such as 127.0.0.1:15983")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(app.FleetGCPercent))
	fmt.Fprintf(env.Stderr, "control %s\n", listener.Addr())
	alive := jsonhttp.NewAlive(alone)
	ctx, cancel := whileHeard(ctx, env, alive)
	defer cancel()
	server := control.NewServer(ctx, app.Version())
	server.Alive = alive
	return server.Serve(listener)
}
