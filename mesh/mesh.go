// Package mesh is what the runner needs of any service mesh: inject a sidecar into a pod, set
// a cell's levers, and verify after a trial that the cell's mode was active.
//
// The runner passes a [Workload] to [Mesh.Decorate] for each Deployment it is about to create,
// applies the objects of [Mesh.Policies], and after each trial passes the counts ([Evidence])
// to [Mesh.Verify], whose checks become part of the trial's validity. For a study of the
// control plane it passes the [Levers] of a cell to [ControlPlane.Apply], then calls
// [ControlPlane.Check] to verify that each took effect, and finally [ControlPlane.Restore] to
// revert everything. Adapters live in subpackages and never import each other.
package mesh

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// AppLabel is the label by which policies and Services select a workload's pods. Its value is
// the workload's name.
const AppLabel = "app.kubernetes.io/name"

// Proxy is a workload's specification of its sidecar.
type Proxy struct {
	// Levels has the levels of the factors that affect it, as spelled there. The level of
	// telemetry may be [TelemetryLedger]. Other factors are the mesh's choice.
	Levels record.Cell
	// CertificateTTL is how long the workload's certificates are valid; they are replaced
	// after half of that time. 0 leaves both to the mesh.
	CertificateTTL time.Duration
	// Abrupt ends the proxy as soon as its pod is stopped, without draining its connections.
	Abrupt bool
}

// Equal reports whether two sidecars have the same specification.
func (p Proxy) Equal(other Proxy) bool {
	return maps.Equal(p.Levels, other.Levels) && p.CertificateTTL == other.CertificateTTL && p.Abrupt == other.Abrupt
}

// Level returns the level of a factor; "" if absent.
func (p Proxy) Level(factor string) string { return p.Levels[factor] }

// Set returns the level of a factor; "" if it leaves the mesh unchanged.
func (p Proxy) Set(factor string) string {
	switch level := p.Levels[factor]; level {
	case study.LevelNone, study.LevelDefault, study.NotApplicable:
		return ""
	default:
		return level
	}
}

// Unknown returns a lack for each factor of sidecars that an adapter does not know and that is
// not at its default, so that no level is measured without having been applied.
func (p Proxy) Unknown(known ...string) []Lack {
	var out []Lack
	for _, f := range study.DataPlane.Factors() {
		if level := p.Level(f.Name); level != "" && level != f.Default && level != study.NotApplicable && !slices.Contains(known, f.Name) {
			out = append(out, Lack{Factor: f.Name, Level: level, Reason: "this mesh has no such setting of its sidecars"})
		}
	}
	return out
}

// Workload is a Deployment of a role: the load generator or the worker.
type Workload struct {
	Name      string
	Namespace string
	Proxy     *Proxy // nil: no sidecar
	// Carrier is the level of the factor sidecars if proxies other than sidecars carry its
	// requests; otherwise "".
	Carrier string
	Client  bool // whether it sends requests rather than serving them
	Gateway bool // whether its pods are only proxies: see [Gated]
	// ControlPort is the port of the role's control server, which must bypass the sidecar.
	ControlPort int
	// Levels has the levels of the factors that affect, for its requests, a shared proxy in
	// front of it, such as a waypoint; nil with a sidecar.
	Levels record.Cell
	// Extensions are the user's own configuration for its sidecar.
	Extensions []Extension
	// Outside describes a server outside the mesh; nil for others.
	Outside *Outside
}

// Outside is how clients in a mesh reach a server outside it.
type Outside struct {
	Destination string // level of the factor destination
	// Host is the server's name, and Virtual the address that it has for clients. Only
	// proxies that know the name from the mesh can forward requests to that address.
	Host, Virtual string
	// Address is where proxies forward requests to, and Name its DNS name.
	Address, Name string
	// Bypass is a planted defect: clients' requests are not routed to the egress gateway.
	Bypass bool
}

// Set returns the level of a factor of its sidecar or of a shared proxy in front of it; "" if it
// leaves the mesh unchanged.
func (w Workload) Set(factor string) string {
	if w.Proxy != nil {
		return w.Proxy.Set(factor)
	}
	return Proxy{Levels: w.Levels}.Set(factor)
}

// SinkName is the name of the Service, in the workloads' namespace, that receives telemetry
// about requests from proxies, and that they ask about requests: a worker without a sidecar.
const SinkName = "sink"

// Endpoint is the destination of a trial's requests.
type Endpoint struct {
	Service   string // name of the Kubernetes Service
	Namespace string
	Port      int
	// Opaque means that proxies see only connections, not requests: plain TCP, or TLS
	// passthrough.
	Opaque bool
	// Host is the name of a server outside the mesh; "" for others. Unknown means that the
	// mesh does not know the address where clients reach it, and Client is the workload of
	// these clients.
	Host    string `json:",omitempty"`
	Unknown bool   `json:",omitempty"`
	Client  string `json:",omitempty"`
	// Streams means that each connection carries one stream of messages: proxies see the request
	// that opens it.
	Streams bool
}

// Evidence has the counts from just before a trial's first request until just after its last.
type Evidence struct {
	Cell     record.Cell `json:"cell"` // effective levels
	Endpoint Endpoint    `json:"endpoint"`
	// Requests is the number of requests that the generator sent and saw the end of. Unknown
	// is the number that it gave up, which may or may not have arrived.
	Requests int64 `json:"requests"`
	Unknown  int64 `json:"unknown"`
	// SentS is the duration of sending, in seconds.
	SentS float64 `json:"sent_s,omitempty"`
	// Connections is the number of connections the generator opened. Probes is how many of
	// them it closed again without sending a byte, which a proxy may or may not forward.
	Connections int64 `json:"connections"`
	Probes      int64 `json:"probes"`
	// Remade counts connections that replaced a persistent one. A request in flight on the old
	// one may have reached one proxy and not the next, and may have been resent by a library
	// without notice.
	Remade int64 `json:"remade,omitempty"`
	// Way is the expected path of the cell's requests. Both pods may be on one node.
	Way record.Way `json:"way"`
	// Proxies has the proxies that were found, by part: those of that path, and unexpected
	// sidecars of the two pods.
	Proxies map[string]*Passed `json:"proxies"`
	// Beside has the node proxies that the cell's requests should have bypassed, by node.
	Beside map[string]*Passed `json:"beside,omitempty"`
	// Wire is what the generator sent and read on its connections; nil at the services of a
	// graph, for whose proxies only Rise is known.
	Wire *Wire `json:"wire,omitempty"`
	// Worker is the increase of the worker's counters; nil if not read, as at the services of
	// a graph. Connections is then an upper bound, and the actual number may be lower by up to
	// Probes.
	Worker map[string]float64 `json:"worker"`
	// Extensions has the extensions of the server's workload, by name.
	Extensions map[string]Extended `json:"extensions,omitempty"`
	// FiltersVary means that the study has cells with parts enabled, so that a part that is
	// present by itself would invalidate the measurement.
	FiltersVary bool `json:"filters_vary,omitempty"`
}

// Wire is the traffic on the generator's connections, in bytes.
type Wire struct {
	Sent int64 `json:"sent"`
	Read int64 `json:"read"`
	// Bodies means that these are only the bodies of requests and responses, without framing
	// and encryption: more bytes passed.
	Bodies bool `json:"bodies,omitempty"`
}

// Passed is what was observed of a proxy on the path.
type Passed struct {
	// Rise is the increase of its statistics, nil if they could not be read. Total has their
	// values at the end, since the proxy's start.
	Rise  map[string]float64 `json:"rise"`
	Total map[string]float64 `json:"total"`
	// Config is the configuration in force after the trial, from the admin interface.
	Config []byte `json:"-"`
	// State is what the proxy reports about itself; nil if it does not.
	State *ProxyState `json:"state"`
	// Of is the number of proxies that Rise sums, if several clients have one each; 0 means
	// one. All other fields are those of the first.
	Of int `json:"of,omitempty"`
}

// Seen returns the least and the largest number of requests that proxies for HTTP see. Those that
// the generator gave up may or may not have passed. Messages of a stream are not requests.
func (e Evidence) Seen() (low, high int64) {
	if e.Endpoint.Streams {
		return e.Connections - e.Probes, e.Connections
	}
	return e.Requests, e.Requests + e.Unknown
}

// Read returns what was observed of a proxy; nil if its statistics could not be read.
func (e Evidence) Read(part string) *Passed {
	if p := e.Proxies[part]; p != nil && p.Rise != nil {
		return p
	}
	return nil
}

// ProxyState is the state of a running proxy, as opposed to its specification.
type ProxyState struct {
	Version  string // reported by the proxy itself
	CPULimit string // of the running container; "none" without one
}

// Proxies describes how to find and query a mesh's proxies at one place.
type Proxies struct {
	// Containers has the containers of a pod that make up a proxy; the first is the proxy
	// itself.
	Containers []string
	// Namespace and Selector find their pods if the proxies are not sidecars: at places other
	// than [record.PlaceSidecar]. "" is the run's namespace.
	Namespace, Selector string
	// AdminPort is a proxy's admin port on the pod's loopback. Admin returns a client for the
	// proxy that an HTTP client reaches.
	AdminPort int
	Admin     func(client *http.Client) Admin
	// Stats is a regular expression for the statistics that Verify reads.
	Stats string
	// Hint says where to look if no proxy is ready; "" if there is no hint.
	Hint string
	// Of is the object, in their namespace, from which a control plane creates them and whose
	// status reports the result; nil if there is none.
	Of *Source
	// Agents are the pods that connect other pods on their node to the proxies there; without
	// containers if there are none.
	Agents Agents
}

// Source identifies an object.
type Source struct {
	Resource schema.GroupVersionResource
	Name     string
}

// Agents describes how to find pods that support proxies on nodes.
type Agents struct {
	Namespace, Selector string
	Containers          []string
	// Awaited is the init container with which a pod with a sidecar waits until agents have
	// redirected its requests. A pod without it redirects its own requests.
	Awaited string
	// Brought selects the pods that they connect to proxies. A connected pod has the
	// annotation Mark with the value Marked; "" if there is no such mark.
	Brought, Mark, Marked string
	// Noun names an agent in prose, and Hint says where to look if one has failed.
	Noun, Hint string
}

// Serve reports whether a pod with a sidecar relies on them for its redirection.
func (a Agents) Serve(pod *corev1.Pod) bool {
	return a.Awaited != "" && slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == a.Awaited })
}

// A Fitter is a mesh that knows what its running proxies should be.
type Fitter interface {
	// Fits returns why a proxy at a place is not the one that a run's header names, or nil.
	Fits(place record.Place, running ProxyState) error
}

// Fits returns the verdict of a mesh that is a [Fitter] on a running proxy; nil if the proxy's
// state was not read.
func Fits(m Mesh, place record.Place, running *ProxyState) error {
	if fitter, ok := m.(Fitter); ok && running != nil {
		return fitter.Fits(place, *running)
	}
	return nil
}

// Mesh is an adapter.
type Mesh interface {
	// Name is the mesh's name in study files.
	Name() string
	// Check verifies that the mesh is installed and usable, and returns the binaries that
	// would be measured. proxies are the sidecars that the plan requests. The error says what
	// is missing and how to fix it.
	Check(ctx context.Context, cluster *rest.Config, proxies []Proxy) ([]record.Component, error)
	// Decorate requests w's sidecar, or none, in its pod template, which excludes the pod from
	// Istio's injection.
	Decorate(w Workload, pod *corev1.PodTemplateSpec) error
	// DecorateService adds the annotations that tell the mesh the protocols of a Service's
	// ports, and those for the cell's levers that a Service carries.
	DecorateService(s *corev1.Service, cell record.Cell)
	// Policies returns the objects that set the workloads' levers that pods cannot carry.
	Policies(workloads []Workload) []*unstructured.Unstructured
	// Proxies returns the proxies at a place; without containers if the mesh has none there.
	Proxies(place record.Place) Proxies
	// ControlPlane returns the namespace ("" for any) and the label selector of the pods of
	// the mesh's control plane; "" for none.
	ControlPlane() (namespace, selector string)
	// Verify checks that the cell's mode was active.
	Verify(e Evidence) []record.Check
}

// Admin queries a running proxy.
type Admin interface {
	// Version returns the proxy's version.
	Version(ctx context.Context) (string, error)
	// Stats reads the counters and gauges whose names match filter, an unanchored RE2
	// expression ("" matches all).
	Stats(ctx context.Context, filter string) (observe.ProxyStats, error)
	// Gauges reads only gauges, at the lowest cost to the proxy.
	Gauges(ctx context.Context, filter string) (map[string]float64, error)
	// Config reads the configuration in force, in the form for Verify.
	Config(ctx context.Context) ([]byte, error)
	// Get reads a path.
	Get(ctx context.Context, path string, query url.Values) ([]byte, error)
}

// Sidecars returns the sidecars of a mesh.
func Sidecars(m Mesh) Proxies { return m.Proxies(record.PlaceSidecar) }

// OnTheWay is a helper for Verify: it checks that each proxy on the path was present, and no
// other sidecar.
func OnTheWay(e Evidence) []record.Check {
	var checks []record.Check
	for _, p := range record.Proxies {
		want, is := e.Way.Has(p.Part), e.Read(p.Part) != nil
		switch {
		case p.Place == record.PlaceSidecar:
			word := map[bool]string{true: "has a sidecar", false: "has no sidecar"}
			checks = append(checks, record.Check{Name: p.Side + "-sidecar", OK: is == want, Detail: "the pod " + word[is] + "; by the cell it " + word[want]})
		case want:
			word := map[bool]string{true: "its statistics were read", false: "its statistics could not be read"}
			checks = append(checks, record.Check{Name: strings.ReplaceAll(p.Part, "_", "-") + "-present", OK: is, Detail: p.Noun + " is on the request path; " + word[is]})
		}
	}
	return checks
}

// Expect is a helper for Verify: it checks that got equals want within slack.
func Expect(name string, got, want, slack float64, what string) record.Check {
	ok := got >= want-slack && got <= want+slack
	detail := fmt.Sprintf("%s: %.0f, expected %.0f", what, got, want)
	if slack > 0 {
		detail += fmt.Sprintf(" (±%.0f)", slack)
	}
	return record.Check{Name: name, OK: ok, Detail: detail}
}
