package generate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// object is the part of an API object that is used.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Created     time.Time         `json:"creationTimestamp"`
		Owners      []struct {
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec   json.RawMessage   `json:"spec"`
	Data   map[string]string `json:"data"`
	Status struct {
		Phase      string    `json:"phase"`
		Start      time.Time `json:"startTime"`
		Conditions []struct {
			Type  string    `json:"type"`
			True  string    `json:"status"`
			Since time.Time `json:"lastTransitionTime"`
		} `json:"conditions"`
		Containers []containerStatus `json:"containerStatuses"`
		Init       []containerStatus `json:"initContainerStatuses"`
	} `json:"status"`
}

type containerStatus struct {
	Name  string `json:"name"`
	State struct {
		Running struct {
			Since time.Time `json:"startedAt"`
		} `json:"running"`
	} `json:"state"`
}

func (o object) owner() scope.Owner {
	return scope.Owner{Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

// readers holds the readers by kind.
var readers = map[string]func(*Inventory, object) error{
	"Namespace": (*Inventory).readNamespace, "ConfigMap": (*Inventory).readConfigMap,
	"Pod": reads((*Inventory).readPod), "WorkloadEntry": reads((*Inventory).readWorkloadEntry),
	"Deployment": reads((*Inventory).readController), "StatefulSet": reads((*Inventory).readController),
	"DaemonSet": reads((*Inventory).readController), "CronJob": reads((*Inventory).readController),
	"Service": reads((*Inventory).readService), "ServiceEntry": reads((*Inventory).readEntry),
	"DestinationRule": reads((*Inventory).readRule), "VirtualService": reads((*Inventory).readVirtual),
	"HTTPRoute": reads((*Inventory).readRoute), "GRPCRoute": reads((*Inventory).readRoute),
	"TCPRoute": reads((*Inventory).readRoute), "TLSRoute": reads((*Inventory).readRoute),
	"Sidecar": (*Inventory).readSidecar, "EnvoyFilter": (*Inventory).readFilter,
	"WasmPlugin": reads((*Inventory).readExtension), "TrafficExtension": reads((*Inventory).readExtension),
	"AuthorizationPolicy":   reads((*Inventory).readPolicy),
	"RequestAuthentication": reads((*Inventory).readTokens),
}

// reads makes a reader of what to do with a decoded spec.
func reads[T any](add func(*Inventory, object, T)) func(*Inventory, object) error {
	return func(inv *Inventory, o object) error {
		var spec T
		if err := field(o.Spec, "spec", &spec); err != nil {
			return err
		}
		add(inv, o, spec)
		return nil
	}
}

// Kinds lists the kinds to read, as kubectl names them, and routes those of the Gateway API, which
// not every cluster has.
const (
	Kinds = "namespaces,pods,deployments,statefulsets,daemonsets,cronjobs,workloadentries,services,serviceentries," +
		"virtualservices,destinationrules,sidecars,envoyfilters,wasmplugins,requestauthentications"
	routes = "httproutes,grpcroutes,tcproutes,tlsroutes"
)

// Read reads a list of objects, or one, as kubectl and the API server write them. kind is for lists whose
// objects do not name theirs. Other kinds are skipped.
func (inv *Inventory) Read(r io.Reader, kind string) error {
	err := scope.ReadObjects(r, func(listed string, raw json.RawMessage) error {
		_, err := inv.Add(cmp.Or(listed, kind), raw)
		return err
	})
	if kind != "" {
		inv.read[kind] = true // also where there is none
	}
	if err != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("objects: %w", err), errs.CodeUsage),
			"list them with: kubectl get "+Kinds+" -A -o json; and, where there is the Gateway API, "+routes)
	}
	return nil
}

// Reads reports whether objects of a kind are read, rather than skipped.
func Reads(kind string) bool { return readers[kind] != nil }

// Add adds an object, and returns its kind: kind is that of its list, for one that does not name its own.
func (inv *Inventory) Add(kind string, raw json.RawMessage) (string, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return "", err
	}
	o.Kind = cmp.Or(o.Kind, kind)
	read := readers[o.Kind]
	if read == nil {
		return o.Kind, nil
	}
	inv.read[o.Kind] = true
	if err := read(inv, o); err != nil {
		return o.Kind, fmt.Errorf("%s %s/%s: %w", o.Kind, o.Metadata.Namespace, o.Metadata.Name, err)
	}
	if inv.objects[o.Kind] == nil {
		inv.objects[o.Kind] = map[string]bool{}
	}
	inv.objects[o.Kind][o.Metadata.Namespace+"/"+o.Metadata.Name] = true
	return o.Kind, nil
}

// field decodes a part of an object and names it in errors.
func field(raw json.RawMessage, name string, into any) error {
	if len(raw) == 0 {
		return nil
	}
	err := json.Unmarshal(raw, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s: unexpected %s", strings.TrimSuffix(name+"."+wrong.Field, "."), wrong.Value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (inv *Inventory) readNamespace(o object) error {
	inv.namespaces[o.Metadata.Name] = o.Metadata.Labels
	return nil
}

// jobNumber matches the suffix of the Jobs of a CronJob.
var jobNumber = regexp.MustCompile(`-[0-9]{8,}$`)

// workloadOf returns the name of a pod's workload as istiod derives it; clock reports that a
// CronJob made it.
func workloadOf(o object) (name string, clock bool) {
	name = o.Metadata.Name
	for _, owner := range o.Metadata.Owners {
		if !owner.Controller {
			continue
		}
		name = owner.Name
		switch owner.Kind {
		case "ReplicaSet":
			hash := cmp.Or(o.Metadata.Labels["pod-template-hash"], o.Metadata.Labels["rollouts-pod-template-hash"])
			if hash != "" {
				name = strings.TrimSuffix(name, "-"+hash)
			}
		case "ReplicationController":
			name = cmp.Or(o.Metadata.Labels["deploymentconfig"], name)
		case "Job":
			clock = jobNumber.MatchString(name)
			name = jobNumber.ReplaceAllString(name, "")
		}
	}
	return cmp.Or(o.Metadata.Labels["service.istio.io/workload-name"], name), clock
}

const proxyContainer = "istio-proxy"

type container struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
}

type podSpec struct {
	Containers     []container `json:"containers"`
	InitContainers []container `json:"initContainers"`
}

func (inv *Inventory) readPod(o object, spec podSpec) {
	name, clock := workloadOf(o)
	w := Workload{o.Metadata.Namespace, name}
	proxied, gateway := false, false
	for _, c := range append(spec.Containers, spec.InitContainers...) {
		if c.Name != proxyContainer {
			continue
		}
		if slices.Contains(c.Args, scope.NodeZtunnel) {
			return // it forwards others' calls
		}
		proxied, gateway = true, gateway || NotSidecar(c.Args)
	}
	if o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" {
		if clock && proxied { // it will return
			inv.workload(w, o.Metadata.Labels)
		}
		return
	}
	if _, listed := inv.pods[Workload{w.Namespace, o.Metadata.Name}]; !listed {
		inv.addEndpoint(o)
	}
	inv.addPod(w, o.Metadata.Name, o.Metadata.Labels, proxied, gateway)
	start := o.Status.Start
	for _, c := range append(o.Status.Containers, o.Status.Init...) {
		if c.Name == proxyContainer && !c.State.Running.Since.IsZero() {
			start = c.State.Running.Since // it may have been restarted
		}
	}
	if p := inv.workloads[w]; proxied && !start.IsZero() && (p.since.IsZero() || start.Before(p.since)) {
		p.since = start
	}
}

// addEndpoint adds a pod as an endpoint of Services, from the time it became ready.
func (inv *Inventory) addEndpoint(o object) {
	e := endpoint{labels: o.Metadata.Labels, since: o.Status.Start}
	for _, c := range o.Status.Conditions {
		if c.Type != "Ready" {
			continue
		}
		if c.True != "True" {
			return
		}
		if c.Since.After(e.since) {
			e.since = c.Since
		}
	}
	inv.endpoints[o.Metadata.Namespace] = append(inv.endpoints[o.Metadata.Namespace], e)
}

// NotSidecar reports whether the arguments of a container istio-proxy make it a proxy that Sidecars
// do not concern: a gateway, a waypoint or a ztunnel.
func NotSidecar(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return arg == "router" || arg == "waypoint" || arg == scope.NodeZtunnel })
}

type workloadEntrySpec struct {
	Labels map[string]string `json:"labels"`
}

// readWorkloadEntry reads a machine. One that registered itself has a proxy; others may not.
func (inv *Inventory) readWorkloadEntry(o object, spec workloadEntrySpec) {
	group := o.Metadata.Annotations["istio.io/autoRegistrationGroup"]
	if group == "" {
		inv.machines[o.Metadata.Namespace]++
		return
	}
	labels := map[string]string{}
	maps.Copy(labels, o.Metadata.Labels)
	maps.Copy(labels, spec.Labels)
	inv.addPod(Workload{o.Metadata.Namespace, group}, o.Metadata.Name, labels, true, false)
}

type template struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

type controllerSpec struct {
	Template template `json:"template"`
	Job      struct {
		Spec struct {
			Template template `json:"template"`
		} `json:"spec"`
	} `json:"jobTemplate"`
}

// readController reads a controller: if it currently has no pods (scaled to zero, or scheduled),
// its future pods need a scope.
func (inv *Inventory) readController(o object, spec controllerSpec) {
	t := spec.Template.Metadata
	if o.Kind == "CronJob" {
		t = spec.Job.Spec.Template.Metadata
	}
	const inject = "sidecar.istio.io/inject"
	w := Workload{o.Metadata.Namespace, cmp.Or(t.Labels["service.istio.io/workload-name"], o.Metadata.Name)}
	inv.controllers = append(inv.controllers, controller{w, t.Labels, cmp.Or(t.Labels[inject], t.Annotations[inject])})
	if had := inv.born[w]; had.IsZero() || o.Metadata.Created.Before(had) {
		inv.born[w] = o.Metadata.Created
	}
}

// port is one of a Service or a ServiceEntry.
type port struct {
	Name        string `json:"name"`
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol"`
	Port        int    `json:"port"`   // of a Service
	Number      int    `json:"number"` // of a ServiceEntry
	// Target is the number or the name of the pods' port.
	Target json.RawMessage `json:"targetPort"`
}

// requests are protocols of which proxies count requests.
var requests = map[string]bool{"http": true, "http2": true, "grpc": true, "grpc-web": true, "kubernetes.io/h2c": true}

// tcp reports whether proxies count only the connections to a port. Its protocol is, in the order in which
// istiod looks: its appProtocol, its name up to a dash, what it says.
func tcp(p port) bool {
	name, _, _ := strings.Cut(p.Name, "-")
	if strings.HasPrefix(p.Name, "grpc-web") {
		name = "grpc-web"
	}
	return !slices.ContainsFunc([]string{p.AppProtocol, name, p.Protocol}, func(word string) bool { return requests[strings.ToLower(word)] })
}

// tcpPorts are the numbers of the ports of which proxies count connections alone.
func tcpPorts(ports []port) (out []int) {
	for _, p := range ports {
		if tcp(p) {
			out = append(out, cmp.Or(p.Port, p.Number))
		}
	}
	return out
}

// requestPorts are the pods' ports behind those of which proxies count requests, as far as they are numbers.
func requestPorts(ports []port) (out []int) {
	for _, p := range ports {
		number := p.Port
		if len(p.Target) > 0 && json.Unmarshal(p.Target, &number) != nil {
			continue // a name
		}
		if !tcp(p) {
			out = append(out, number)
		}
	}
	return out
}

// ServesRequests reports whether a Service says that a port of a workload's pods takes HTTP or gRPC.
func (inv *Inventory) ServesRequests(w Workload, port int) bool {
	pods := inv.workloads[w]
	for _, s := range inv.services {
		if pods != nil && s.Namespace == w.Namespace && len(s.selector) > 0 && slices.Contains(s.requests, port) &&
			contains(pods.labels, s.selector) {
			return true
		}
	}
	return false
}

type serviceSpec struct {
	Type         string            `json:"type"`
	ClusterIP    string            `json:"clusterIP"`
	ExternalName string            `json:"externalName"`
	Selector     map[string]string `json:"selector"`
	Ports        []port            `json:"ports"`
}

func (inv *Inventory) readService(o object, spec serviceSpec) {
	h := Host{o.Metadata.Namespace, serviceHost(o.Metadata.Name, o.Metadata.Namespace, inv.Domain)}
	headless := spec.ClusterIP == "None"
	s := service{Host: h, object: o.owner(), ports: len(spec.Ports), tcp: tcpPorts(spec.Ports), requests: requestPorts(spec.Ports),
		headless: headless, direct: headless, selector: spec.Selector}
	if spec.Type == "ExternalName" {
		s.external, s.alias = true, strings.TrimSuffix(strings.ToLower(spec.ExternalName), ".")
	}
	for _, to := range strings.Split(o.Metadata.Annotations["networking.istio.io/exportTo"], ",") {
		if to = strings.TrimSpace(to); to != "" {
			s.exportTo = append(s.exportTo, to)
		}
	}
	inv.addService(s)
}

type entrySpec struct {
	Hosts      []string `json:"hosts"`
	Ports      []port   `json:"ports"`
	ExportTo   []string `json:"exportTo"`
	Resolution string   `json:"resolution"`
}

func (inv *Inventory) readEntry(o object, spec entrySpec) {
	// With these resolutions the endpoints do not change for a proxy (STATIC, LOGICAL_DNS).
	staying := spec.Resolution == "STATIC" || spec.Resolution == "DNS_ROUND_ROBIN"
	for _, host := range spec.Hosts {
		inv.addService(service{Host: Host{o.Metadata.Namespace, host}, // in its own case, as istiod compares it
			object: o.owner(), ports: len(spec.Ports), exportTo: spec.ExportTo, direct: !staying, tcp: tcpPorts(spec.Ports)})
	}
}

type ruleSpec struct {
	Host    string     `json:"host"`
	Policy  rulePolicy `json:"trafficPolicy"`
	Subsets []struct {
		Policy rulePolicy `json:"trafficPolicy"`
	} `json:"subsets"`
}

func (inv *Inventory) readRule(o object, spec ruleSpec) {
	host := inv.full(spec.Host, o.Metadata.Namespace)
	inv.rules[o.owner()] = host
	l7 := spec.Policy.set()
	for _, s := range spec.Subsets {
		l7 = l7 || s.Policy.set()
	}
	if had := inv.balanced[host]; l7 && !slices.Contains(had, o.owner()) {
		inv.balanced[host] = append(had, o.owner())
	}
}

// clusterName matches the name of a service's cluster in an EnvoyFilter or an extension.
var clusterName = regexp.MustCompile(`outbound\|[0-9]*\|[^|"' ]*\|([A-Za-z0-9._-]+)`)

// readClusterNames finds the clusters of services in the settings of an extension.
func (inv *Inventory) readClusterNames(o object) {
	for _, m := range clusterName.FindAllStringSubmatch(string(o.Spec), -1) {
		inv.needs = append(inv.needs, need{namespace: o.Metadata.Namespace, host: m[1]})
	}
}

type tokensSpec struct {
	attachment
	Rules []struct {
		URI string `json:"jwksUri"`
	} `json:"jwtRules"`
}

// readTokens adds the hosts from which keys are fetched, if the mesh knows them. Proxies fetch them
// if istiod delegates that (PILOT_JWT_ENABLE_REMOTE_JWKS).
func (inv *Inventory) readTokens(o object, spec tokensSpec) {
	if len(spec.Rules) > 0 {
		inv.attach(o, spec.attachment)
	}
	for _, r := range spec.Rules {
		if u, err := url.Parse(r.URI); err == nil && u.Hostname() != "" {
			inv.needs = append(inv.needs, need{namespace: o.Metadata.Namespace, host: u.Hostname(), ifKnown: true})
		}
	}
}

// readConfigMap reads the mesh's configuration (istio.mesh.v1alpha1.MeshConfig).
func (inv *Inventory) readConfigMap(o object) error {
	text, found := o.Data["mesh"]
	if !found || o.Metadata.Name != "istio" && !strings.HasPrefix(o.Metadata.Name, "istio-") {
		return nil
	}
	var config struct {
		RootNamespace string `json:"rootNamespace"`
		Outbound      struct {
			Mode string `json:"mode"`
		} `json:"outboundTrafficPolicy"`
		Services  []string         `json:"defaultServiceExportTo"`
		Routes    []string         `json:"defaultVirtualServiceExportTo"`
		Providers []map[string]any `json:"extensionProviders"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("data.mesh: %w", err)
	}
	inv.configured = true
	inv.Root, inv.outbound = cmp.Or(config.RootNamespace, inv.Root), cmp.Or(config.Outbound.Mode, inv.outbound)
	inv.exports, inv.routeExports = config.Services, config.Routes
	for _, provider := range config.Providers {
		for _, settings := range provider {
			m, _ := settings.(map[string]any)
			if service, _ := m["service"].(string); service != "" {
				inv.needs = append(inv.needs, need{host: service})
			}
		}
	}
	return nil
}

func (inv *Inventory) readSidecar(o object) error {
	s, err := existingSidecar(o)
	if err != nil {
		return err
	}
	if host := egressProxy(s.whole); host != "" {
		inv.needs = append(inv.needs, need{namespace: s.Namespace, host: inv.full(host, s.Namespace)})
	}
	inv.existing = append(slices.DeleteFunc(inv.existing, func(e Sidecar) bool { return e.String() == s.String() }), s)
	return nil
}

// egressProxy returns the host of a Sidecar's outboundTrafficPolicy.egressProxy.
func egressProxy(spec map[string]any) string {
	policy, _ := spec["outboundTrafficPolicy"].(map[string]any)
	proxy, _ := policy["egressProxy"].(map[string]any)
	host, _ := proxy["host"].(string)
	return host
}
