package cli

import (
	"context"
	"encoding/json"
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

// xdsFlags are the flags of `meshtrial xds`.
type xdsFlags struct {
	control        string
	addresses      []string
	proxies        int
	gateways       int
	ztunnels       int
	mode           string
	security       string
	tokenFile      string
	rootFile       string
	certFile       string
	keyFile        string
	caAddress      string
	serverName     string
	namespace      string
	serviceAccount string
	trustDomain    string
	prefix         string
	identities     string
	clusterID      string
	istioVersion   string
	behaviour      string
	share          float64
	streams        int
	dnsCapture     bool
	hbone          bool
	duration       time.Duration
	patience       time.Duration
	alone          time.Duration
	json           bool
}

func newXDSCommand(env *Env) *cobra.Command {
	f := &xdsFlags{}
	cmd := &cobra.Command{
		Use:   "xds",
		Short: "Connect simulated sidecars to an istiod",
		Long: "Connect simulated sidecars, gateways and ztunnels to an istiod, take what it sends, and\n" +
			"say how much that was. They subscribe and acknowledge as pilot-agent with Envoy, and\n" +
			"ztunnel, do.\n\n" +
			"Each proxy says that it is the pod PREFIX-N of --namespace. Istiod also serves a pod that\n" +
			"it does not know: what its namespace sees, but nothing inbound. To name pods that exist,\n" +
			"give --identities, a file of JSON: [{\"name\": \"a-1\", \"namespace\": \"x\", \"ip\": \"10.0.0.1\"}].\n" +
			"When interrupted, it prints what it has so far.",
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
					return errs.Usage("--control allows no other flag than --alone: the study sends the rest")
				}
				return serveXDSControl(cmd.Context(), env, f.control, f.alone)
			}
			spec, err := f.spec(cmd.Context())
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("duration") && f.duration <= 0 || f.patience <= 0 {
				return errs.Usage("--duration and --patience must be more than 0")
			}
			return runXDS(cmd.Context(), env, spec, f)
		},
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.StringVar(&f.control, "control", "", "serve as a study's role: take requests at this loopback `HOST:PORT`")
	addAlone(fs, &f.alone)
	fs.StringVar(&f.behaviour, "behaviour", xds.BehaviourGood, strings.Join(xds.Behaviours(), ", "))
	fs.Float64Var(&f.share, "share", 1, "share of the proxies that show --behaviour")
	fs.IntVar(&f.streams, "streams-per-connection", 50, "proxies on one connection; 1 is as in a real mesh")
	fs.DurationVar(&f.duration, "duration", 0, "how long to go on once every proxy is synced (default: until interrupted)")
	fs.DurationVar(&f.patience, "patience", 30*time.Second, "with --duration: stop waiting for the rest when none was synced for this long")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	cmd.AddCommand(newXDSRecordCommand(env))
	return cmd
}

// register adds the flags that say where to connect and as whom.
func (f *xdsFlags) register(fs *pflag.FlagSet) {
	f.streams = 1
	fs.StringSliceVar(&f.addresses, "address", nil, "`HOST:PORT` of istiod; may be repeated")
	fs.IntVar(&f.proxies, "proxies", 0, "simulated sidecars")
	fs.IntVar(&f.gateways, "gateways", 0, "simulated gateways")
	fs.IntVar(&f.ztunnels, "ztunnels", 0, "simulated ztunnels, which only an istiod in ambient mode takes")
	fs.StringVar(&f.mode, "mode", xds.ModeDelta, "delta or sotw (state of the world)")
	fs.StringVar(&f.security, "security", xds.SecurityPlaintext, "plaintext, token or mtls")
	fs.StringVar(&f.tokenFile, "token-file", "", "`FILE` with a service account token (audience istio-ca)")
	fs.StringVar(&f.rootFile, "root-ca", "", "`FILE` with the certificates that istiod's is verified against, PEM")
	fs.StringVar(&f.certFile, "cert", "", "`FILE` with a workload certificate chain, PEM")
	fs.StringVar(&f.keyFile, "key", "", "`FILE` with the key of --cert, PEM")
	fs.StringVar(&f.caAddress, "ca-address", "", "with --security mtls and a token instead of --cert: `HOST:PORT` that signs a certificate (default the first --address)")
	fs.StringVar(&f.serverName, "server-name", "", "name in istiod's certificate (default istiod.istio-system.svc)")
	fs.StringVar(&f.namespace, "namespace", "default", "namespace of the proxies")
	fs.StringVar(&f.serviceAccount, "service-account", "default", "service account of the proxies")
	fs.StringVar(&f.trustDomain, "trust-domain", "", "with --security mtls and a token: the mesh's trust domain (default: that of the signed certificate)")
	fs.StringVar(&f.prefix, "pod-prefix", "meshtrial", "pods are named PREFIX-0, PREFIX-1...")
	fs.StringVar(&f.identities, "identities", "", "`FILE` with the pods that the proxies say they are, JSON")
	fs.StringVar(&f.clusterID, "cluster-id", "", "istiod's cluster ID (default Kubernetes)")
	fs.StringVar(&f.istioVersion, "istio-version", "", "`version` that the proxies say they have (default 1.31.0)")
	fs.BoolVar(&f.dnsCapture, "dns-capture", false, "sidecars also ask for the table of DNS names")
	fs.BoolVar(&f.hbone, "hbone", false, "sidecars and gateways also ask for all workloads, as with ISTIO_META_ENABLE_HBONE")
}

// maxIdentities bounds a file of identities, bytes: a million pods.
const maxIdentities = 256 << 20

// gcPercent keeps the fleet's memory close to what it holds: it allocates
// little, so that collecting twice as often costs next to nothing.
const gcPercent = 50

// spec makes a fleet of the flags.
func (f *xdsFlags) spec(ctx context.Context) (xds.Spec, error) {
	spec := xds.DefaultSpec("")
	spec.Addresses = f.addresses
	if len(f.addresses) == 0 {
		return spec, errs.WithHint(errs.Usage("no --address"), "meshtrial xds --address HOST:15010 --proxies 100")
	}
	spec.Mode, spec.StreamsPerConnection, spec.DNSCapture, spec.HBONE = f.mode, f.streams, f.dnsCapture, f.hbone
	spec.Mesh = xds.Mesh{ClusterID: f.clusterID, IstioVersion: f.istioVersion}
	if f.proxies < 0 || f.gateways < 0 || f.ztunnels < 0 || !(f.share >= 0 && f.share <= 1) {
		return spec, errs.Usage("--proxies, --gateways and --ztunnels must not be negative, --share must be 0 to 1")
	}
	if n := f.proxies + f.gateways + f.ztunnels; n > 1_000_000 {
		return spec, errs.Usage("%d proxies: want at most 1000000", n)
	}
	if err := f.addProxies(ctx, &spec); err != nil {
		return spec, err
	}
	spec.Security = xds.Security{Mode: f.security, ServerName: f.serverName, CAAddress: f.caAddress, TrustDomain: f.trustDomain}
	var token, chain, key string
	for _, file := range []struct {
		path string
		into *string
	}{{f.tokenFile, &token}, {f.rootFile, &spec.Security.RootCA}, {f.certFile, &chain}, {f.keyFile, &key}} {
		if file.path == "" {
			continue
		}
		data, err := readInput(ctx, file.path, maxSecret)
		if err != nil {
			return spec, err
		}
		*file.into = string(data)
	}
	if token != "" {
		identity := "" // a token serves all, but a certificate that it gets is of one service account
		if f.security == xds.SecurityMTLS {
			identity = f.namespace + "/" + f.serviceAccount
		}
		spec.Security.Tokens = map[string]string{identity: token}
	}
	if chain != "" || key != "" {
		spec.Security.Certificates = map[string]xds.Certificate{"": {Chain: chain, Key: key}}
	}
	return spec, spec.Validate()
}

// addProxies fills in who the proxies are.
func (f *xdsFlags) addProxies(ctx context.Context, spec *xds.Spec) error {
	var known []xds.Proxy
	if f.identities != "" {
		data, err := readInput(ctx, f.identities, maxIdentities)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &known); err != nil {
			return errs.Usage("%s: %v", f.identities, err)
		}
	}
	total := f.proxies + f.gateways + f.ztunnels
	if total == 0 {
		total = len(known)
	}
	switch {
	case f.identities != "" && len(known) == 0:
		return errs.Usage("%s names no pod", f.identities)
	case total == 0:
		return errs.WithHint(errs.Usage("no proxy to connect"), "--proxies 100, --gateways 2, or --identities FILE")
	case known != nil && total > len(known):
		return errs.Usage("%d proxies, but only %d identities in %s", total, len(known), f.identities)
	}
	for i := range total {
		p := xds.Proxy{Name: fmt.Sprintf("%s-%d", f.prefix, i), Namespace: f.namespace, ServiceAccount: f.serviceAccount,
			IP: fmt.Sprintf("10.%d.%d.%d", 200+i>>16&31, i>>8&255, i&255)}
		if known != nil {
			p = known[i]
		}
		switch {
		case i >= total-f.ztunnels:
			p.Type = xds.NodeZtunnel
		case i >= total-f.ztunnels-f.gateways:
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

// serveXDSControl is the xds role: fleets on request, until ctx ends or nobody
// was heard for alone.
func serveXDSControl(ctx context.Context, env *Env, address string, alone time.Duration) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("xds control: %w", err), errs.CodeUsage), "--control takes a free HOST:PORT, for instance 127.0.0.1:15983")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	fmt.Fprintf(env.Stderr, "control %s\n", listener.Addr())
	alive := jsonhttp.NewAlive(alone)
	ctx, cancel := whileHeard(ctx, env, alive)
	defer cancel()
	server := control.NewServer(ctx, app.Version())
	server.Alive = alive
	return server.Serve(listener)
}
