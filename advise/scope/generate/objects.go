package generate

import (
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

// object is the part of an API object that is read.
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

// readers are by kind.
var readers = map[string]func(*Inventory, object) error{
	"Namespace": (*Inventory).readNamespace, "Pod": (*Inventory).readPod,
	"Service": (*Inventory).readService, "ServiceEntry": (*Inventory).readEntry,
	"VirtualService": (*Inventory).readVirtual, "DestinationRule": (*Inventory).readRule,
	"Sidecar": (*Inventory).readSidecar, "EnvoyFilter": (*Inventory).readFilter,
	"WasmPlugin": (*Inventory).readClusterNames, "TrafficExtension": (*Inventory).readClusterNames,
	"RequestAuthentication": (*Inventory).readTokens, "ConfigMap": (*Inventory).readConfigMap,
	"HTTPRoute": (*Inventory).readRoute, "GRPCRoute": (*Inventory).readRoute, "TCPRoute": (*Inventory).readRoute, "TLSRoute": (*Inventory).readRoute,
	"Deployment": (*Inventory).readController, "StatefulSet": (*Inventory).readController, "DaemonSet": (*Inventory).readController, "CronJob": (*Inventory).readController,
	"WorkloadEntry": (*Inventory).readWorkloadEntry,
}

// Kinds are those that are read, as kubectl lists them.
const Kinds = "namespaces,pods,deployments,statefulsets,daemonsets,cronjobs,workloadentries,services,serviceentries,virtualservices,destinationrules,sidecars,envoyfilters,wasmplugins,requestauthentications"

// Routes are those of the Gateway API, which not every cluster has.
const Routes = "httproutes,grpcroutes,tcproutes,tlsroutes"

// Read reads a list of objects, or one, as kubectl and the API server write them. kind is for lists
// whose objects do not name theirs. Other kinds are skipped.
func (inv *Inventory) Read(r io.Reader, kind string) error {
	err := scope.ReadObjects(r, func(listed string, raw json.RawMessage) error {
		var o object
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		for _, k := range []string{listed, kind} {
			if o.Kind == "" {
				o.Kind = k
			}
		}
		read := readers[o.Kind]
		if read == nil {
			return nil
		}
		inv.read[o.Kind] = true
		if err := read(inv, o); err != nil {
			return fmt.Errorf("%s %s/%s: %w", o.Kind, o.Metadata.Namespace, o.Metadata.Name, err)
		}
		return nil
	})
	if kind != "" {
		inv.read[kind] = true // also where there is none
	}
	if err != nil {
		return errs.WithHint(errs.WithCode(fmt.Errorf("objects: %w", err), errs.CodeUsage),
			"list them with: kubectl get "+Kinds+" -A -o json; and, where there is the Gateway API, "+Routes)
	}
	return nil
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

func (inv *Inventory) readService(o object) error {
	var spec struct {
		Type         string            `json:"type"`
		ClusterIP    string            `json:"clusterIP"`
		ExternalName string            `json:"externalName"`
		Selector     map[string]string `json:"selector"`
		Ports        []port            `json:"ports"`
	}
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	h := Host{o.Metadata.Namespace, serviceHost(o.Metadata.Name, o.Metadata.Namespace, inv.Domain)}
	s := Service{Host: h, Object: "Service " + o.Metadata.Namespace + "/" + o.Metadata.Name, Ports: len(spec.Ports),
		Headless: spec.ClusterIP == "None", Direct: spec.ClusterIP == "None", Selector: spec.Selector}
	if spec.Type == "ExternalName" {
		s.External, s.Alias = true, strings.TrimSuffix(strings.ToLower(spec.ExternalName), ".")
	}
	for _, p := range spec.Ports {
		s.TCP = s.TCP || p.tcp()
	}
	for _, to := range strings.Split(o.Metadata.Annotations["networking.istio.io/exportTo"], ",") {
		if to = strings.TrimSpace(to); to != "" {
			s.ExportTo = append(s.ExportTo, to)
		}
	}
	inv.addService(s)
	return nil
}

// port is one of a Service or a ServiceEntry. Its protocol is, in the order in
// which istiod looks: its appProtocol, its name up to a dash, what it says.
type port struct {
	Name        string `json:"name"`
	Protocol    string `json:"protocol"`
	AppProtocol string `json:"appProtocol"`
}

// requests are protocols of which proxies count requests.
var requests = map[string]bool{"http": true, "http2": true, "grpc": true, "grpc-web": true, "kubernetes.io/h2c": true}

func (p port) tcp() bool {
	name, _, _ := strings.Cut(p.Name, "-")
	if strings.HasPrefix(p.Name, "grpc-web") {
		name = "grpc-web"
	}
	for _, word := range []string{p.AppProtocol, name, p.Protocol} {
		if requests[strings.ToLower(word)] {
			return false
		}
	}
	return true
}

func (inv *Inventory) readEntry(o object) error {
	var spec struct {
		Hosts      []string `json:"hosts"`
		Ports      []port   `json:"ports"`
		ExportTo   []string `json:"exportTo"`
		Resolution string   `json:"resolution"`
	}
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	for _, host := range spec.Hosts {
		h := Host{o.Metadata.Namespace, host} // in its own case, as istiod compares it
		s := Service{Host: h, Object: "ServiceEntry " + o.Metadata.Namespace + "/" + o.Metadata.Name, Entry: true, Ports: len(spec.Ports), ExportTo: spec.ExportTo,
			Direct: !staying[spec.Resolution]}
		for _, p := range spec.Ports {
			s.TCP = s.TCP || p.tcp()
		}
		inv.addService(s)
	}
	return nil
}

// staying are resolutions whose endpoints stay what they are for a proxy (STATIC, LOGICAL_DNS).
var staying = map[string]bool{"STATIC": true, "DNS_ROUND_ROBIN": true}

func (inv *Inventory) readRule(o object) error {
	var spec struct {
		Host string `json:"host"`
	}
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	host := inv.full(spec.Host, o.Metadata.Namespace)
	owner := scope.Owner{Kind: "DestinationRule", Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
	inv.rules[owner] = host
	return nil
}

// clusterName is how an EnvoyFilter names the cluster of a service.
var clusterName = regexp.MustCompile(`outbound\|[0-9]*\|[^|"' ]*\|([A-Za-z0-9._-]+)`)

func (inv *Inventory) readFilter(o object) error {
	var spec struct {
		Patches []struct {
			ApplyTo string `json:"applyTo"`
			Patch   struct {
				Value struct {
					Name any `json:"name"`
				} `json:"value"`
			} `json:"patch"`
		} `json:"configPatches"`
	}
	if err := field(o.Spec, "spec", &spec); err == nil { // a value may be of any form
		for _, p := range spec.Patches {
			if name, is := p.Patch.Value.Name.(string); is && p.ApplyTo == "CLUSTER" {
				inv.added[name] = true
			}
		}
	}
	return inv.readClusterNames(o)
}

// readClusterNames finds the clusters of services in the settings of an
// extension.
func (inv *Inventory) readClusterNames(o object) error {
	for _, m := range clusterName.FindAllStringSubmatch(string(o.Spec), -1) {
		inv.needs = append(inv.needs, need{namespace: o.Metadata.Namespace, host: m[1], why: o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name})
	}
	return nil
}

// readTokens finds where keys are fetched, which proxies do where istiod is told
// to leave it to them (PILOT_JWT_ENABLE_REMOTE_JWKS), if the mesh knows the host.
func (inv *Inventory) readTokens(o object) error {
	var spec struct {
		Rules []struct {
			URI string `json:"jwksUri"`
		} `json:"jwtRules"`
	}
	if err := field(o.Spec, "spec", &spec); err != nil {
		return err
	}
	for _, r := range spec.Rules {
		if u, err := url.Parse(r.URI); err == nil && u.Hostname() != "" {
			inv.needs = append(inv.needs, need{namespace: o.Metadata.Namespace, host: u.Hostname(), why: "RequestAuthentication " + o.Metadata.Namespace + "/" + o.Metadata.Name, ifKnown: true})
		}
	}
	return nil
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
		Selectors []any            `json:"discoverySelectors"`
		Providers []map[string]any `json:"extensionProviders"`
		Default   struct {
			Metadata map[string]string `json:"proxyMetadata"`
		} `json:"defaultConfig"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("data.mesh: %w", err)
	}
	if config.RootNamespace != "" {
		inv.Root = config.RootNamespace
	}
	if config.Outbound.Mode != "" {
		inv.Outbound = config.Outbound.Mode
	}
	inv.configured, inv.selectors = true, len(config.Selectors) > 0
	inv.exports, inv.routeExports = config.Services, config.Routes
	inv.Capture = config.Default.Metadata["ISTIO_META_DNS_CAPTURE"] == "true"
	for _, provider := range config.Providers {
		name, _ := provider["name"].(string)
		for _, settings := range provider {
			if m, is := settings.(map[string]any); is {
				if service, is := m["service"].(string); is && service != "" {
					inv.needs = append(inv.needs, need{host: service, why: "extension provider " + name})
				}
			}
		}
	}
	return nil
}

func (inv *Inventory) readSidecar(o object) error {
	s, err := existingSidecar(o.Metadata.Namespace, o.Metadata.Name, o.Spec)
	if err != nil {
		return err
	}
	s.Labels, s.Annotations, s.created = o.Metadata.Labels, maps.Clone(o.Metadata.Annotations), o.Metadata.Created
	if host := egressProxy(s.whole); host != "" {
		of := o.Metadata.Namespace
		inv.needs = append(inv.needs, need{namespace: of, host: inv.full(host, of), why: "egress proxy of Sidecar " + s.String()})
	}
	delete(s.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	inv.existing = append(slices.DeleteFunc(inv.existing, func(e Sidecar) bool { return e.String() == s.String() }), s)
	return nil
}
