package istio

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/study"
)

// partsIn is what a sidecar's configuration contains of the parts that the
// factor filters switches.
type partsIn struct {
	parts []dataplane.Part // of known kinds, for requests to the worker's port; in the order of a level
	names map[string]bool
	// modules has the SHA-256 digests of Wasm modules, in hexadecimal, by the name of the extension.
	modules map[string]string
	// apart has the names of our filters whose configuration does not come with the listener.
	apart []string
	// refused has the sidecar's own messages about rejected configuration.
	refused []string
}

// inbound is the part of the inbound listener that handles requests to a port.
// See envoy/config/listener/v3/listener.proto.
type inbound struct {
	Listening []filterIn `json:"listener_filters"`
	Chains    []chainIn  `json:"filter_chains"`
}

type chainIn struct {
	Name  string `json:"name"`
	Match struct {
		Port int `json:"destination_port"`
	} `json:"filter_chain_match"`
	Socket  json.RawMessage `json:"transport_socket"`
	Filters []struct {
		Name   string `json:"name"`
		Config struct {
			Filters []filterIn `json:"http_filters"`
			Logs    []struct {
				Name string `json:"name"`
			} `json:"access_log"`
			Tracing struct {
				Provider *struct {
					Name string `json:"name"`
				} `json:"provider"`
			} `json:"tracing"`
			Routes struct {
				Hosts []struct {
					Routes []struct {
						Name string `json:"name"`
					} `json:"routes"`
				} `json:"virtual_hosts"`
			} `json:"route_config"`
		} `json:"typed_config"`
	} `json:"filters"`
}

type filterIn struct {
	Name   string         `json:"name"`
	Config map[string]any `json:"typed_config"`
}

// readParts returns the parts that a sidecar has for requests to a port.
func readParts(data []byte, port int) (partsIn, error) {
	d, err := parseDump(data)
	if err != nil {
		return partsIn{}, err
	}
	out := partsIn{names: map[string]bool{}, modules: map[string]string{}, refused: d.refused()}
	var all any
	if err := json.Unmarshal(data, &all); err != nil {
		return partsIn{}, fmt.Errorf("configuration of the proxy: %w", err)
	}
	visit(all, "name", func(v any) {
		if name, ok := v.(string); ok {
			out.names[name] = true
		}
	})
	visit(all, "http_filters", func(v any) {
		list, _ := v.([]any)
		for _, one := range list {
			filter, _ := one.(map[string]any)
			name, _ := filter["name"].(string)
			if filter["config_discovery"] != nil && strings.HasPrefix(name, ourFilters) {
				out.apart = append(out.apart, name)
			}
		}
	})
	listeners, clusters := 0, 0
	for _, c := range d.Configs {
		if captures, _, _ := unstructured.NestedString(c.Bootstrap, "node", "metadata", "DNS_CAPTURE"); captures == "true" {
			out.add(dataplane.PartDNSProxy, 0)
		}
		for _, l := range c.Listeners {
			if strings.HasPrefix(l.Name, ourResources) && len(l.Active.Listener) > 0 {
				listeners++
			}
			if l.Name == inboundListener && len(l.Active.Listener) > 0 {
				in, err := l.inbound()
				if err != nil {
					return partsIn{}, err
				}
				in.read(&out, port)
			}
		}
		for _, one := range c.Clusters {
			if strings.HasPrefix(one.Cluster.Name, ourResources+"cluster-") {
				clusters++
			}
		}
		for _, one := range c.Extensions {
			if code := one.Filter.Config.Config.VM.Code.Local.Bytes; len(code) > 0 {
				out.modules[one.Filter.Name] = fmt.Sprintf("%x", sha256.Sum256(code))
			}
		}
		for _, s := range c.Secrets {
			if s.Name != "default" {
				continue
			}
			ec, err := isECDSA(s.Secret.Certificate.Chain.Bytes)
			if err != nil {
				return partsIn{}, err
			}
			if ec {
				out.add(dataplane.PartECDSA, 0)
			}
		}
	}
	if listeners > 0 {
		out.add(dataplane.PartListeners, listeners)
	}
	if clusters > 0 {
		out.add(dataplane.PartClusters, clusters)
	}
	return out, nil
}

// add adds a part unless it is already present.
func (f *partsIn) add(kind string, n int) {
	p := dataplane.Part{Kind: kind, N: n}
	if !slices.Contains(f.parts, p) {
		f.parts = append(f.parts, p)
	}
}

// isECDSA parses the first certificate of a chain.
func isECDSA(chain []byte) (bool, error) {
	block, _ := pem.Decode(chain)
	if block == nil {
		return false, fmt.Errorf("the proxy's own certificate is not PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return false, fmt.Errorf("the proxy's own certificate: %w", err)
	}
	_, ok := certificate.PublicKey.(*ecdsa.PublicKey)
	return ok, nil
}

// read adds the parts in the chains for a port.
func (in inbound) read(out *partsIn, port int) {
	for _, f := range in.Listening {
		if f.Name == ourFilters+dataplane.PartInspector {
			out.add(dataplane.PartInspector, 0)
		}
	}
	for _, chain := range in.Chains {
		if chain.Match.Port != port {
			continue
		}
		for _, f := range chain.Filters {
			if f.Name != managerFilter {
				continue
			}
			for _, h := range f.Config.Filters {
				h.read(out)
			}
			if f.Config.Tracing.Provider != nil {
				out.add(dataplane.PartTracing, 0)
			}
			for _, log := range f.Config.Logs {
				if log.Name == ourFilters+dataplane.PartOTLPLog {
					out.add(dataplane.PartOTLPLog, 0)
				}
			}
			routes := 0
			for _, host := range f.Config.Routes.Hosts {
				for _, r := range host.Routes {
					if strings.HasPrefix(r.Name, ourResources) {
						routes++
					}
				}
			}
			if routes > 0 {
				out.add(dataplane.PartRoutes, routes)
			}
		}
	}
}

// read adds the parts that an HTTP filter implements.
func (h filterIn) read(out *partsIn) {
	if kind, ok := strings.CutPrefix(h.Name, ourFilters); ok && isOurs(kind) {
		n := 0
		if kind == dataplane.PartPlanted {
			visit(h.Config, "inline_string", func(v any) {
				text, _ := v.(string)
				_, after, _ := strings.Cut(text, "spent() + ")
				_, _ = fmt.Sscanf(after, "%d", &n) // 0 on failure, which matches no part
				n /= 1000
			})
		}
		out.add(kind, n)
		return
	}
	switch h.Name {
	case "envoy.filters.http.rbac":
		if kind, n := rbacPart(h.Config); n > 0 {
			out.add(kind, n)
		}
	case "envoy.filters.http.jwt_authn":
		out.add(dataplane.PartJWT, 0)
	}
}

// isOurs reports whether a part consists of an HTTP filter with its name.
func isOurs(kind string) bool {
	return httpFilters[kind] != nil || slices.Contains(study.Callouts(), kind)
}

// rbacPart returns the kind and number of rules of the part that an RBAC filter
// implements.
func rbacPart(config map[string]any) (string, int) {
	rules, _ := config["rules"].(map[string]any)
	policies, _ := rules["policies"].(map[string]any)
	// ALLOW is the default, which JSON omits.
	if rules["action"] == "DENY" {
		return dataplane.PartAuthzDeny, len(policies)
	}
	return dataplane.PartAuthzAllow, len(policies)
}
