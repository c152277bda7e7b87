package mesh

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Levers are what a trial's cell asks of the control plane, in the spelling
// of the factors; see [LeversOf].
type Levers struct {
	SidecarScope       string   // none, mesh, namespace, workload: whom Sidecar resources select
	SidecarHosts       []string // their egress hosts
	OutboundPolicy     string   // ALLOW_ANY, REGISTRY_ONLY: in the Sidecars, without them mesh-wide
	ExportTo           string   // *, . or ~: for objects that say nothing themselves
	DiscoverySelectors string   // none, key=value, key!=value: the namespaces that are looked at
	DebounceAfter      string   // duration
	DebounceMax        string   // duration
	EDSDebounce        string   // true, false
	PushThrottle       string   // default, or a number of concurrent pushes
	RequestLimit       string   // default, or a number of requests a second
	Replicas           string   // number
	CPU                string   // none, or a Kubernetes quantity
	Memory             string   // none, or a Kubernetes quantity
	CPURequest         string   // default, or a Kubernetes quantity
	MemoryRequest      string   // default, or a Kubernetes quantity
	Delta              string   // true, false: what real proxies are told to speak
	XDSCache           string   // true, false
	DNSCapture         string   // true, false: what real proxies are told
	Env                string   // none, or NAME=VALUE;NAME=VALUE
	Image              string   // default, or an image reference

	// Namespaces get a Sidecar each at scope namespace and workload.
	Namespaces []string
	// Workload selects the pods that have one at scope workload.
	Workload map[string]string
}

// Level none and default, as factors spell them.
const (
	LevelNone    = "none"
	LevelDefault = "default"
)

// leverFactors ties the factors to the fields, with the level that stands
// for a factor which a cell lacks.
var leverFactors = []struct {
	factor, level string
	set           func(*Levers, string)
}{
	{"sidecar_scope", LevelNone, func(l *Levers, v string) { l.SidecarScope = v }},
	{"sidecar_hosts", "./*,istio-system/*", func(l *Levers, v string) { l.SidecarHosts = splitList(v, ",") }},
	{"outbound_policy", "ALLOW_ANY", func(l *Levers, v string) { l.OutboundPolicy = v }},
	{"export_to", "*", func(l *Levers, v string) { l.ExportTo = v }},
	{"discovery_selectors", LevelNone, func(l *Levers, v string) { l.DiscoverySelectors = v }},
	{"debounce_after", "100ms", func(l *Levers, v string) { l.DebounceAfter = v }},
	{"debounce_max", "10s", func(l *Levers, v string) { l.DebounceMax = v }},
	{"eds_debounce", "true", func(l *Levers, v string) { l.EDSDebounce = v }},
	{"push_throttle", LevelDefault, func(l *Levers, v string) { l.PushThrottle = v }},
	{"request_limit", LevelDefault, func(l *Levers, v string) { l.RequestLimit = v }},
	{"istiod_replicas", "1", func(l *Levers, v string) { l.Replicas = v }},
	{"istiod_cpu", LevelNone, func(l *Levers, v string) { l.CPU = v }},
	{"istiod_memory", LevelNone, func(l *Levers, v string) { l.Memory = v }},
	{"istiod_cpu_request", LevelDefault, func(l *Levers, v string) { l.CPURequest = v }},
	{"istiod_memory_request", LevelDefault, func(l *Levers, v string) { l.MemoryRequest = v }},
	{"delta", "true", func(l *Levers, v string) { l.Delta = v }},
	{"xds_cache", "true", func(l *Levers, v string) { l.XDSCache = v }},
	{"dns_capture", "false", func(l *Levers, v string) { l.DNSCapture = v }},
	{"istiod_env", LevelNone, func(l *Levers, v string) { l.Env = v }},
	{"istiod", LevelDefault, func(l *Levers, v string) { l.Image = v }},
}

// LeversOf reads the levers out of a cell. A factor that the cell lacks
// stands at its default, which is Istio's. Namespaces and Workload are the
// caller's to set.
func LeversOf(cell record.Cell) Levers {
	var l Levers
	for _, f := range leverFactors {
		level, ok := cell[f.factor]
		if !ok {
			level = f.level
		}
		f.set(&l, level)
	}
	return l
}

func splitList(text, separator string) []string {
	var out []string
	for item := range strings.SplitSeq(text, separator) {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// EnvVars are the variables that Env names.
func (l Levers) EnvVars() (map[string]string, error) {
	vars := map[string]string{}
	if l.Env == "" || l.Env == LevelNone {
		return vars, nil
	}
	for _, item := range splitList(l.Env, ";") {
		name, value, ok := strings.Cut(item, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, errs.Usage("istiod_env %q: %q is not NAME=VALUE", l.Env, item)
		}
		if _, twice := vars[name]; twice {
			return nil, errs.Usage("istiod_env %q sets %s twice", l.Env, name)
		}
		vars[name] = value
	}
	return vars, nil
}

// ControlPlane is a mesh's control plane as the thing under test: its levers
// are set before a trial and proved after it. It keeps in the cluster how it
// found what it changed, so that Restore works in another process too.
type ControlPlane interface {
	// Apply sets the levers where they differ from what is there, and waits
	// until every replica runs with them and none of the former is left.
	// fresh restarts it even when nothing differs, so that a trial does not
	// inherit the heap and caches of the one before.
	Apply(ctx context.Context, levers Levers, fresh bool) (Applied, error)
	// Check proves that each lever took effect. Call it after the trial's
	// window, with proxies still connected.
	Check(ctx context.Context, levers Levers, e ControlEvidence) []record.Check
	// Restore puts everything back as Apply first found it. It does nothing
	// when there is nothing to put back.
	Restore(ctx context.Context) error
	// Pods lists the running replicas.
	Pods(ctx context.Context) ([]ControlPod, error)
	// Discovery says where proxies connect.
	Discovery(ctx context.Context) (Discovery, error)
	// Logs follows a replica's log from an instant on, until the context
	// ends or the container does. Package observe parses it.
	Logs(ctx context.Context, pod ControlPod, since time.Time) (io.ReadCloser, error)
}

// Applied is what Apply did.
type Applied struct {
	Restarted bool          // its pods are new
	Changed   []string      // objects that it wrote, Kind namespace/name
	Took      time.Duration // until all was in force
}

// ControlPod is a running replica of the control plane.
type ControlPod struct {
	Namespace, Name, UID, Node, IP string
	// Container is the name of the one that is under test.
	Container  string
	Containers map[string]string // name to container ID
	Restarts   int32             // of Container since the pod began
	// AdminPort serves metrics, profiles and debugging to callers on the
	// pod's loopback.
	AdminPort int
}

// Discovery is where and how proxies connect.
type Discovery struct {
	Plaintext  string // host:port for xDS without TLS; the host is a cluster name
	TLS        string // host:port for xDS with TLS
	ServerName string // in the server's certificate
	RootCA     []byte // PEM, which signed it
	Audience   string // of service account tokens that it accepts
	ClusterID  string // name of the cluster in proxies' metadata
	Version    string // of the control plane, as proxies of its release say it
}

// ControlEvidence is what a trial saw of its proxies.
type ControlEvidence struct {
	// Rises is how far the control plane's series rose in the window, by
	// series as Prometheus writes it.
	Rises map[string]float64
	// Proxies are some of those connected, at best one of each namespace.
	Proxies []ControlProxy
}

// ControlProxy is a proxy as it is connected, and what it holds.
type ControlProxy struct {
	ID        string // node ID
	Namespace string
	Labels    map[string]string
	Gateway   bool
	// Clusters are the names of the clusters it holds (cds); nil: unknown.
	Clusters []string
}

// ErrNotRestored is wrapped when something could not be put back.
var ErrNotRestored = fmt.Errorf("the control plane is not as it was")
