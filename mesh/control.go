package mesh

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Levers has the control plane settings of a trial's cell; see [LeversOf]. Unnamed levers stay
// as installed.
type Levers struct {
	// Levels has the levels of the named factors of [controlplane.Levers], as spelled there.
	Levels record.Cell
	// Namespaces each get a Sidecar at scope namespace and workload.
	Namespaces []string
	// Workload selects the pods that get one at scope workload.
	Workload map[string]string
	// Wait is how long every replica may take to become ready, if longer than the usual limit.
	Wait time.Duration
}

// LeversOf returns the levers of a cell. It omits levers that the cell lacks, that are
// meaningless there, or that are as installed. The caller sets Namespaces and Workload.
func LeversOf(cell record.Cell) Levers {
	l := Levers{Levels: record.Cell{}}
	for _, f := range controlplane.Levers() {
		if level := cell[f.Name]; f.Sets(level) {
			l.Levels[f.Name] = level
		}
	}
	return l
}

// Named reports whether a level of a factor is requested.
func (l Levers) Named(factor string) bool {
	f, ok := controlplane.LeverByName(factor)
	return ok && f.Sets(l.Levels[factor])
}

// AnyNamed reports whether any of the scope's factors is named.
func (l Levers) AnyNamed(scope study.Scope) bool {
	for _, f := range controlplane.Levers() {
		if f.Scope == scope && f.Sets(l.Levels[f.Name]) {
			return true
		}
	}
	return false
}

// Level returns the level of a factor; [study.LevelInstalled] unless it is named.
func (l Levers) Level(factor string) string {
	if !l.Named(factor) {
		return study.LevelInstalled
	}
	return l.Levels[factor]
}

// With returns the levers with one of them at another level.
func (l Levers) With(factor, level string) Levers {
	l.Levels = l.Levels.With(record.Cell{factor: level})
	return l
}

// Hosts returns the egress hosts of the Sidecars; the usual ones if none are named.
func (l Levers) Hosts() []string {
	level := l.Level(controlplane.FactorSidecarHosts)
	if level == study.LevelInstalled {
		f, _ := controlplane.LeverByName(controlplane.FactorSidecarHosts)
		level = f.Usual
	}
	return splitList(level, ",")
}

// Refuse returns an error if a lever has an impossible level.
func (l Levers) Refuse() error {
	for _, f := range controlplane.Levers() {
		if !l.Named(f.Name) {
			continue
		}
		if _, err := f.Canonical(l.Level(f.Name)); err != nil {
			return errs.Usage("%s %q: %v", f.Name, l.Level(f.Name), err)
		}
	}
	return nil
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

// EnvVars returns the variables that istiod_env names.
func (l Levers) EnvVars() (map[string]string, error) {
	vars := map[string]string{}
	env := l.Level(controlplane.FactorIstiodEnv)
	if env == study.LevelInstalled {
		return vars, nil
	}
	for _, item := range splitList(env, ";") {
		name, value, ok := strings.Cut(item, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, errs.Usage("istiod_env %q: %q is not NAME=VALUE", env, item)
		}
		if _, twice := vars[name]; twice {
			return nil, errs.Usage("istiod_env %q sets %s twice", env, name)
		}
		vars[name] = value
	}
	return vars, nil
}

// ControlPlane is a mesh's control plane as the system under test: its levers are set before a
// trial and verified after it. The cluster's journal records its changes before they are made.
type ControlPlane interface {
	// Apply sets the named levers where they differ from their current state, and waits until
	// every replica runs with them and none of the old ones is left. Other levers stay
	// unchanged. fresh forces a restart even without a difference, so that a trial does not
	// inherit the previous one's heap and caches.
	Apply(ctx context.Context, levers Levers, fresh bool) (Applied, error)
	// AwaitElected waits for at most a minute until a leader has been elected since the
	// replicas' restart, if they elect a leader that then pushes everything to every proxy.
	AwaitElected(ctx context.Context) error
	// Found returns the installed values of unnamed levers, by factor: a level if the value
	// matches one, otherwise the value itself. Call it after Apply has returned.
	Found(ctx context.Context, levers Levers) (record.Cell, error)
	// Check verifies that each named lever took effect. Call it after the trial's window, with
	// proxies still connected.
	Check(ctx context.Context, levers Levers, e ControlEvidence) []record.Check
	// Plan returns what Apply would change in the mesh for each of these levers in turn. It
	// changes nothing.
	Plan(ctx context.Context, all []Levers) ([]journal.Planned, error)
	// Restore reverts the changes of this run's Apply, and waits until that is in force. It
	// leaves changes by others.
	Restore(ctx context.Context) error
	// Pods lists the ready replicas.
	Pods(ctx context.Context) ([]ControlPod, error)
	// Started lists the replicas whose container runs, ready or not.
	Started(ctx context.Context) ([]ControlPod, error)
	// Kill deletes all replicas without their grace period, and waits until replacements are
	// ready or ctx ends.
	Kill(ctx context.Context) error
	// Autoscalers lists the autoscalers that may change the number of replicas.
	Autoscalers(ctx context.Context) ([]Autoscaler, error)
	// Discovery returns where proxies connect. watched is a namespace that the control plane
	// watches.
	Discovery(ctx context.Context, watched string) (Discovery, error)
	// Logs follows a replica's log from an instant until the context ends or the container
	// does. Package observe parses it.
	Logs(ctx context.Context, pod ControlPod, since time.Time) (io.ReadCloser, error)
}

// Controlled is a mesh whose control plane can be the system under test.
type Controlled interface {
	Mesh
	// Control returns the control plane of a revision, or the only one for "". Setting levers
	// requires a journal.
	Control(ctx context.Context, config *rest.Config, revision string, changes *journal.Journal) (Tested, error)
}

// Tested is a control plane under test. Close it after use.
type Tested interface {
	ControlPlane
	Close() error
	// Connected returns the number of proxies that its levers affect.
	Connected(ctx context.Context) (int, error)
	// Root returns the namespace whose objects apply to the whole mesh. Call it after Found
	// has returned.
	Root() string
}

// Applied is the result of Apply.
type Applied struct {
	Restarted bool          // its pods were replaced
	Changed   []string      // objects that it wrote, Kind namespace/name
	Took      time.Duration // until everything was in force
	// Requests has the installed resource requests that no lever names but a lever's limit has
	// changed, by factor; empty if there are none.
	Requests record.Cell
}

// Autoscaler is an object that may change the number of a control plane's replicas.
type Autoscaler struct {
	Name               string
	Min, Max, Replicas int32
	Scaled             time.Time // last scaling; zero: never
}

// Asked lists what a study's plan requires of an installed mesh.
type Asked struct {
	Proxies []Proxy  // sidecars of its pods
	Levers  []Levers // of the control plane, by cell
	// Served means that some of the sidecars, or a gateway, receive requests. Sent means that
	// some sidecars send requests, and Plain that some of those requests go to pods that do
	// not accept mutual TLS.
	Served, Sent, Plain bool
	// Unknown means that sidecars send requests to addresses that the mesh does not know.
	Unknown bool
	// Ports has the distinct ports of the Services that receive requests.
	Ports []int
	// Ambient means that the mesh's proxies on nodes carry some of the requests, and Waypoint
	// that some of those pass a waypoint.
	Ambient, Waypoint bool
	// Ztunnels means that simulated ztunnels connect to the control plane as installed.
	Ztunnels bool
	// HBONE means that real sidecars or a real gateway use it, and must discover workloads.
	HBONE bool
	// GatewayAPI means that gateways get routes of the Gateway API.
	GatewayAPI bool
}

// ControlPod is a running replica of the control plane.
type ControlPod struct {
	Namespace, Name, UID, Node, IP string
	// Container is the name of the container under test.
	Container  string
	Containers map[string]string // name to container ID
	Restarts   int32             // of Container since the pod started
	Ready      bool
	// AdminPort serves metrics, profiles and debug endpoints on the pod's loopback.
	AdminPort int
}

// Discovery is the address and the parameters of proxies' connections.
type Discovery struct {
	Plaintext  string // host:port for xDS without TLS; the host is a cluster name
	TLS        string // host:port for xDS with TLS
	ServerName string // in the server's certificate
	RootCA     []byte // PEM, of the CA that signed it
	Audience   string // of service account tokens that it accepts
	ClusterID  string // the cluster's name in proxies' metadata
	Version    string // of the control plane, as reported by its release's proxies
	Ambient    bool   // whether node proxies may connect
}

// ControlEvidence is what a trial observed about its proxies.
type ControlEvidence struct {
	// Rises is the increase of the control plane's series in the window, by series in
	// Prometheus notation.
	Rises map[string]float64
	// Proxies has some of the connected proxies, ideally one per namespace.
	Proxies []ControlProxy
}

// ControlProxy is a connected proxy and the configuration it holds.
type ControlProxy struct {
	ID        string // node ID
	Namespace string
	Labels    map[string]string
	Gateway   bool
	// Clusters has the names of the clusters that it holds (cds); nil if unknown.
	Clusters []string
}

// ErrNotRestored is wrapped if something could not be reverted.
var ErrNotRestored = fmt.Errorf("the control plane was not reverted")
