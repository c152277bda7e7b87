// Package mesh is what the runner needs of a service mesh, whichever it is: inject a sidecar
// into a pod, set a cell's levers, and verify after a trial that the cell's mode was active.
//
// The runner hands a [Workload] to [Mesh.Decorate] for each Deployment it is
// about to create, applies the objects of [Mesh.Policies], and after each
// trial gives what was counted ([Evidence]) to [Mesh.Verify], whose checks
// go into the trial's validity. For a study of the control plane it hands the
// [Levers] of a cell to [ControlPlane.Apply], afterwards asks
// [ControlPlane.Check] whether each took effect, and in the end
// [ControlPlane.Restore] to put all back. Adapters live in subpackages and
// never import each other.
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

// AppLabel is the label by which policies and Services select a workload's pods; its value is
// the workload's name.
const AppLabel = "app.kubernetes.io/name"

// Proxy is a workload's specification of its sidecar.
type Proxy struct {
	// Levels are those of the factors that affect it, in their spelling; the level of
	// telemetry may be [TelemetryLedger]. Other factors are the mesh's choice.
	Levels record.Cell
	// CertificateTTL is how long the workload's certificates are valid; they are replaced
	// after half of it. 0 leaves both to the mesh.
	CertificateTTL time.Duration
}

// Equal reports whether two sidecars have the same specification.
func (p Proxy) Equal(other Proxy) bool {
	return maps.Equal(p.Levels, other.Levels) && p.CertificateTTL == other.CertificateTTL
}

// Level is the level of a factor, "" if absent.
func (p Proxy) Level(factor string) string { return p.Levels[factor] }

// Set is the level of a factor if it sets anything, "" if it leaves the mesh as it is.
func (p Proxy) Set(factor string) string {
	switch level := p.Levels[factor]; level {
	case LevelNone, LevelDefault, study.NotApplicable:
		return ""
	default:
		return level
	}
}

// Unknown is a lack for each factor of sidecars that an adapter does not know and that is not
// at its default: a level that nobody applies must not be measured under its name.
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
	// Carrier is the level of the factor sidecars if other proxies than sidecars carry its
	// requests; else "".
	Carrier string
	Client  bool // it sends requests, as opposed to serving them
	// ControlPort is the port of the role's control server, which must not
	// pass through the sidecar.
	ControlPort int
	// Extensions are the user's own configuration for its sidecar.
	Extensions []Extension
}

// SinkName names the Service, in the workloads' namespace, that receives what sidecars send
// about requests: a workload without a sidecar.
const SinkName = "sink"

// Endpoint is where a trial's requests went.
type Endpoint struct {
	Service   string // name of the Kubernetes Service
	Namespace string
	Port      int
	// Opaque says that proxies see connections only, not requests: plain TCP, or TLS passed
	// through.
	Opaque bool
}

// Evidence is what was counted from just before a trial's first request
// until just after its last.
type Evidence struct {
	Cell     record.Cell `json:"cell"` // effective levels
	Endpoint Endpoint    `json:"endpoint"`
	// Requests is how many requests the generator sent and saw the end of; Unknown is how many
	// it gave up on, which may or may not have arrived.
	Requests int64 `json:"requests"`
	Unknown  int64 `json:"unknown"`
	// SentS is how long the generator sent all of them, in seconds.
	SentS float64 `json:"sent_s,omitempty"`
	// Connections the generator opened; Probes is how many of them it closed
	// again without a byte, which a proxy may pass on or not.
	Connections int64 `json:"connections"`
	Probes      int64 `json:"probes"`
	// Remade are connections that replaced one meant to be kept. A request in flight on that
	// one may have reached one proxy and not the next, and may have been resent by a library
	// that reports nothing.
	Remade int64 `json:"remade,omitempty"`
	// Way is what the cell's requests should have passed. Both pods may be on one node.
	Way record.Way `json:"way"`
	// Proxies are those that were found, by part: of that way, and sidecars of the two pods
	// that should not exist.
	Proxies map[string]*Passed `json:"proxies"`
	// Beside are node proxies that the cell's requests should not have passed, by node.
	Beside map[string]*Passed `json:"beside,omitempty"`
	// Wire is what the generator sent and read on its connections; nil at the services of a
	// graph, of whose proxies only Rise is known.
	Wire *Wire `json:"wire,omitempty"`
	// Worker is how far the worker's counters rose; nil if nobody reads them, as at the
	// services of a graph: then Connections is an upper bound, and the number may be lower by
	// up to Probes.
	Worker map[string]float64 `json:"worker"`
	// Extensions are those of the server's workload, by their names.
	Extensions map[string]Extended `json:"extensions,omitempty"`
	// FiltersVary says that the study has cells with parts switched on: then a part that is
	// there by itself would spoil the measurement.
	FiltersVary bool `json:"filters_vary,omitempty"`
}

// Wire is what passed on the generator's connections, in bytes.
type Wire struct {
	Sent int64 `json:"sent"`
	Read int64 `json:"read"`
	// Bodies says that these are the bodies of requests and answers alone, without framing and
	// encryption: more bytes passed.
	Bodies bool `json:"bodies,omitempty"`
}

// Passed is what was observed of a proxy on the way.
type Passed struct {
	// Rise is how far its statistics rose, nil if they could not be read; Total is their
	// values at the end, counted from the proxy's start.
	Rise  map[string]float64 `json:"rise"`
	Total map[string]float64 `json:"total"`
	// Config is the configuration in force after the trial, from the admin interface.
	Config []byte `json:"-"`
	// State is what the proxy reports about itself; nil if it does not.
	State *ProxyState `json:"state"`
	// Of is the number of proxies that Rise sums, if several clients have one each; all else
	// is the first one's. 0: one.
	Of int `json:"of,omitempty"`
}

// Read is what was observed of a proxy, or nil if its statistics could not be read.
func (e Evidence) Read(part string) *Passed {
	if p := e.Proxies[part]; p != nil && p.Rise != nil {
		return p
	}
	return nil
}

// ProxyState is a running proxy, as opposed to its specification.
type ProxyState struct {
	Version  string // from the proxy itself
	CPULimit string // of the running container; "none" without one
}

// Proxies is how the proxies of a mesh at one place are found and asked.
type Proxies struct {
	// Containers are those of a pod that make up a proxy; the first is the proxy itself.
	Containers []string
	// Namespace and Selector find their pods, if they have pods of their own: at other places
	// than [record.PlaceSidecar]. "" is the run's namespace.
	Namespace, Selector string
	// AdminPort is a proxy's admin port on the pod's loopback; Admin is a client of the proxy
	// that an HTTP client reaches.
	AdminPort int
	Admin     func(client *http.Client) Admin
	// Stats is a regular expression for the statistics that Verify reads.
	Stats string
	// Hint says where to look if none is ready; "" without a hint.
	Hint string
	// Of is the object, in their namespace, from which a control plane creates them, and whose
	// status reports the outcome; nil if there is none.
	Of *Source
	// Agents are the pods that connect others on their node to the proxies there; without
	// containers if there are none.
	Agents Agents
}

// Source names an object.
type Source struct {
	Resource schema.GroupVersionResource
	Name     string
}

// Agents is how pods that work for proxies on nodes are found.
type Agents struct {
	Namespace, Selector string
	Containers          []string
	// Awaited is the init container with which a pod with a sidecar waits until agents have
	// redirected its requests; a pod without it does the redirection itself.
	Awaited string
	// Brought selects the pods that they connect to proxies. Each has the annotation Mark with
	// the value Marked once connected; "" if nothing marks that.
	Brought, Mark, Marked string
	// Noun is an agent in words, and Hint where to look if one has not done its work.
	Noun, Hint string
}

// Serve reports that a pod with a sidecar relies on them for its redirection.
func (a Agents) Serve(pod *corev1.Pod) bool {
	return a.Awaited != "" && slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == a.Awaited })
}

// A Fitter is a mesh that knows what its running proxies should be.
type Fitter interface {
	// Fits returns why a proxy at a place is not the one that a run's header names, or nil.
	Fits(place record.Place, running ProxyState) error
}

// Fits is the verdict of a mesh that is a [Fitter] on a running proxy, if that has been read;
// else nil.
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
	// Check checks that the mesh is installed and fit, and returns the binaries that would be
	// measured. proxies are the sidecars that the plan asks for. An error says what is missing
	// and how to fix it.
	Check(ctx context.Context, cluster *rest.Config, proxies []Proxy) ([]record.Component, error)
	// Decorate requests w's sidecar, or none, in its pod template.
	Decorate(w Workload, pod *corev1.PodTemplateSpec) error
	// DecorateService gives a Service the annotations that tell the mesh the protocols of its
	// ports, and those of the cell's levers that it carries.
	DecorateService(s *corev1.Service, cell record.Cell)
	// Policies are the objects that give the workloads the levers that pods cannot carry.
	Policies(workloads []Workload) []*unstructured.Unstructured
	// Proxies are those at a place; without containers if the mesh has none there.
	Proxies(place record.Place) Proxies
	// ControlPlane returns where the pods of the mesh's control plane are: their namespace (""
	// for any) and a label selector; "" for none.
	ControlPlane() (namespace, selector string)
	// Verify checks that the cell's mode was active.
	Verify(e Evidence) []record.Check
}

// Admin queries a running proxy.
type Admin interface {
	// Version is the proxy's own.
	Version(ctx context.Context) (string, error)
	// Stats reads the counters and gauges whose names match filter, a regular
	// expression (RE2, found anywhere in the name; "" is all).
	Stats(ctx context.Context, filter string) (observe.ProxyStats, error)
	// Gauges reads gauges only, at the least cost to the proxy.
	Gauges(ctx context.Context, filter string) (map[string]float64, error)
	// Config reads the configuration in force, as Verify takes it.
	Config(ctx context.Context) ([]byte, error)
	// Get reads a path.
	Get(ctx context.Context, path string, query url.Values) ([]byte, error)
}

// Sidecars are the sidecars of a mesh.
func Sidecars(m Mesh) Proxies { return m.Proxies(record.PlaceSidecar) }

// OnTheWay is a helper of Verify: it checks that each proxy of the way was there, and no
// sidecar that is not on it.
func OnTheWay(e Evidence) []record.Check {
	var checks []record.Check
	for _, p := range record.Proxies {
		want, is := e.Way.Has(p.Part), e.Read(p.Part) != nil
		switch {
		case p.Place == record.PlaceSidecar:
			word := map[bool]string{true: "has a sidecar", false: "has no sidecar"}
			checks = append(checks, record.Check{Name: p.Side + "-sidecar", OK: is == want, Detail: "the pod " + word[is] + "; the cell says it " + word[want]})
		case want:
			word := map[bool]string{true: "its statistics were read", false: "its statistics could not be read"}
			checks = append(checks, record.Check{Name: strings.ReplaceAll(p.Part, "_", "-") + "-present", OK: is, Detail: p.Noun + " is on the way of the requests; " + word[is]})
		}
	}
	return checks
}

// Expect is a helper of Verify: a check that got equals want within slack.
func Expect(name string, got, want, slack float64, what string) record.Check {
	ok := got >= want-slack && got <= want+slack
	detail := fmt.Sprintf("%s: %.0f, expected %.0f", what, got, want)
	if slack > 0 {
		detail += fmt.Sprintf(" (±%.0f)", slack)
	}
	return record.Check{Name: name, OK: ok, Detail: detail}
}
