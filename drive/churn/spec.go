package churn

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Kinds of change, as the factor change names them.
const (
	KindPublished           = "service+gateway+virtualservice"
	KindService             = "service"
	KindVirtualService      = "virtualservice"
	KindDestinationRule     = "destinationrule"
	KindGateway             = "gateway"
	KindServiceEntry        = "serviceentry"
	KindSidecar             = "sidecar"
	KindAuthorizationPolicy = "authorizationpolicy"
	KindTelemetry           = "telemetry"
	KindEndpointsScale      = "endpoints-scale"
	KindEndpointsReplace    = "endpoints-replace"
	KindEndpointsFlap       = "endpoints-flap"
	KindRollingRestart      = "rolling-restart"
	KindNamespaceLabels     = "namespace-labels"
	KindPodLabels           = "pod-labels"
	KindGatewayRoute        = "gateway-route"
	KindHTTPRoute           = "httproute"
	KindNoOp                = "no-op"
	KindMixed               = "mixed"
)

// kinds maps each kind of change to the function that adds the n-th one of a plan. mixed has
// none.
var kinds = []struct {
	name string
	add  func(b *builder, kind string, n int)
}{
	{KindPublished, (*builder).published}, {KindService, (*builder).service}, {KindVirtualService, (*builder).virtualService},
	{KindDestinationRule, (*builder).destinationRule}, {KindGateway, (*builder).gateway}, {KindServiceEntry, (*builder).serviceEntry},
	{KindSidecar, (*builder).sidecar}, {KindAuthorizationPolicy, (*builder).authorizationPolicy}, {KindTelemetry, (*builder).telemetry},
	{KindEndpointsScale, (*builder).endpoints}, {KindEndpointsReplace, (*builder).endpoints}, {KindEndpointsFlap, (*builder).endpoints},
	{KindRollingRestart, (*builder).endpoints}, {KindNamespaceLabels, (*builder).namespaceLabels}, {KindPodLabels, (*builder).podLabels},
	{KindGatewayRoute, (*builder).realRoute}, {KindHTTPRoute, (*builder).realRoute}, {KindNoOp, (*builder).noOp}, {KindMixed, nil},
}

// Kinds lists all kinds of change.
func Kinds() []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

// Arrivals of changes.
const (
	ArrivalUniform = "uniform"
	ArrivalPoisson = "poisson"
	ArrivalBurst   = "burst"
)

// Ways in which endpoints change.
const (
	EndpointsControllers = "controllers" // Deployments and pods, as users do
	EndpointsDirect      = "slices"      // the driver's own EndpointSlices
)

// Spec describes the changes, their times and their number.
type Spec struct {
	// Trial is part of names and markers: at most 20 lower-case letters, digits
	// and dashes.
	Trial string
	Kind  string
	// Arrival is the arrival process of changes, at the rate of Shape in changes per second.
	// Except for poisson, the first change is at 0.
	Arrival string
	Shape   arrival.Shape
	// BurstSize is the number of changes that come together; 0: 10.
	BurstSize int
	// Count is the number of changes (of the published kind: repetitions); 0: as many as fit
	// in DurationS.
	Count int
	// DurationS ends the schedule, in seconds; 0: only Count ends it.
	DurationS float64
	// Trace replaces the schedule with recorded changes, in order.
	Trace []TraceChange
	Seed  uint64
	// Objects is the number of objects changed in turn: the first changes create them, later
	// ones update them. 0: each change creates one.
	Objects int
	// Endpoints is EndpointsControllers (the default) or EndpointsDirect.
	Endpoints string
	// DiscoverySelector is the label by which istiod selects namespaces, as key=value or
	// key!=value; "" for none.
	DiscoverySelector string
	// Population is the population to which the changes refer and which some of them change.
	Population population.Sizes
	// Namespaces are the namespaces in which changes create objects, in turn; nil: those of
	// the population.
	Namespaces []string
	// On is the Service whose endpoints change instead of the population's (endpoints-scale,
	// endpoints-replace, rolling-restart through the controllers). It has a Deployment of the
	// same name, whose pods and EndpointSlices have population.AppLabel with that name and
	// population.PartOf.
	On *population.Service
	// Gateway is the gateway for the routes of gateway-route and httproute.
	Gateway *Gateway
}

// Gateway is a real gateway.
type Gateway struct {
	// Service is the gateway's own, with port 80. Backend is the Service to which its routes
	// lead. Both are in one namespace, with the routes and the Gateway resource.
	Service, Backend population.Service
}

// MaxChanges limits a plan: each change may need its own port.
const MaxChanges = 40_000

var trialName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$`)

// Validate checks the spec.
func (s Spec) Validate() error {
	if !trialName.MatchString(s.Trial) {
		return errs.Usage("trial %q: must be at most 20 lower-case letters, digits and dashes", s.Trial)
	}
	if err := s.Population.Validate(); err != nil {
		return err
	}
	if s.Population.Namespaces == 0 && len(s.Namespaces) == 0 {
		return errs.Usage("no namespace to change objects in")
	}
	switch s.Endpoints {
	case "", EndpointsControllers, EndpointsDirect:
	default:
		return errs.Usage("endpoints %q: want %s or %s", s.Endpoints, EndpointsControllers, EndpointsDirect)
	}
	if s.DiscoverySelector != "" {
		if key, value, _ := s.selector(); key == "" || value == "" {
			return errs.Usage("discovery selector %q: must be key=value or key!=value", s.DiscoverySelector)
		}
	}
	if s.Objects < 0 || s.BurstSize < 0 || s.Count < 0 || s.DurationS < 0 {
		return errs.Usage("objects, burst size, count and duration cannot be negative")
	}
	if s.Count > MaxChanges {
		return errs.Usage("%d changes are more than %d", s.Count, MaxChanges)
	}
	if s.Trace != nil {
		return s.validateTrace()
	}
	if !slices.Contains(Kinds(), s.Kind) {
		return errs.Usage("kind %q: must be one of %s", s.Kind, strings.Join(Kinds(), ", "))
	}
	if !slices.Contains([]string{ArrivalUniform, ArrivalPoisson, ArrivalBurst}, s.Arrival) {
		return errs.Usage("arrival %q: must be uniform, poisson or burst", s.Arrival)
	}
	if err := s.Shape.Validate(); err != nil {
		return errs.Usage("%v", err)
	}
	if s.On != nil {
		onReal := []string{KindEndpointsScale, KindEndpointsReplace, KindRollingRestart}
		if !slices.Contains(onReal, s.Kind) || s.Endpoints == EndpointsDirect || s.On.Endpoints < 1 {
			return errs.Usage("the endpoints of %s/%s do not support changes of kind %s (%s, through the controllers, with at least one endpoint)",
				s.On.Namespace, s.On.Name, s.Kind, strings.Join(onReal, ", "))
		}
	}
	if (s.Kind == KindGatewayRoute || s.Kind == KindHTTPRoute) && (s.Gateway == nil || s.Gateway.Service.Namespace != s.Gateway.Backend.Namespace) {
		return errs.Usage("%s needs a gateway, with its backend in the same namespace", s.Kind)
	}
	if s.Kind == KindHTTPRoute && s.Population.Gateways > 0 && s.Gateway.Service.Namespace != population.GatewayNamespace {
		return errs.Usage("%s: the gateway must be in namespace %s with the simulated ones, or they would not receive its routes", s.Kind, population.GatewayNamespace)
	}
	if s.Count == 0 && s.DurationS == 0 {
		return errs.Usage("neither a count nor a duration ends the changes")
	}
	return nil
}

// watched returns the selector of pods and EndpointSlices that changes may affect.
func (s Spec) watched() string {
	if s.On != nil {
		return population.PartOf + "=meshtrial" // the population's objects have it too
	}
	return population.Label + "=" + population.LabelValue
}

// selector splits DiscoverySelector.
func (s Spec) selector() (key, value string, in bool) {
	if key, value, found := strings.Cut(s.DiscoverySelector, "!="); found {
		return key, value, false
	}
	key, value, _ = strings.Cut(s.DiscoverySelector, "=")
	return key, value, true
}

// Plan holds all changes of a trial, in order of time.
type Plan struct {
	Spec    Spec
	Changes []Change
	// prepare are objects that must exist before the first change.
	prepare []*unstructured.Unstructured
	// restore reverts changes to objects of the population.
	restore []write
}

// Change is one write to the API server that istiod may turn into pushes.
type Change struct {
	Index int // from 0
	// Group counts repetitions: three changes of the published kind are one.
	Group    int
	OffsetNS int64  // planned, since the start
	Kind     string // one of Kinds, except mixed
	Op       string // create, update, delete, patch, scale
	Object   string // Kind/namespace/name
	// Markers identify its effect. For endpoints through the controllers they are known only
	// during the change; Late is set then.
	Markers []record.Marker
	Late    bool
	Scope   Scope
	// Host is the host that a real gateway serves from then on; "" for other changes.
	Host string

	// writes are sent one after the other.
	writes []write
	// pods is the change of a Deployment's pods, if it is one.
	pods *podChange
}

// write is a request to the API server.
type write struct {
	object *unstructured.Unstructured
	// patch is a merge patch of the object; nil to create it.
	patch map[string]any
}

// podChange is a change through the controllers.
type podChange struct {
	service population.Service
	op      string // podScaleUp, podScaleDown, podReplace, podUnready, podReady, podRestart, podLabel
	text    string // of podLabel
}

// TraceChange is a recorded change.
type TraceChange struct {
	OffsetNS int64  // since the start
	Kind     string // one of Kinds, except mixed
}

func (s Spec) validateTrace() error {
	if len(s.Trace) > MaxChanges {
		return errs.Usage("the trace's %d changes are more than %d", len(s.Trace), MaxChanges)
	}
	last := int64(0)
	for i, c := range s.Trace {
		switch {
		case c.OffsetNS < last:
			return errs.Usage("change %d of the trace is earlier than the one before it", i)
		case c.Kind == KindMixed || !slices.Contains(Kinds(), c.Kind):
			return errs.Usage("change %d of the trace: unknown kind of change %.40q", i, c.Kind)
		}
		last = c.OffsetNS
	}
	return nil
}
