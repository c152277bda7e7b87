package xds

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Modes of the discovery protocol.
const (
	ModeDelta = "delta" // incremental, the default of agents
	ModeSotW  = "sotw"  // state of the world
)

// Ways to prove an identity to istiod.
const (
	SecurityPlaintext = "plaintext" // none, port 15010
	SecurityToken     = "token"     // TLS and a service account token, port 15012
	SecurityMTLS      = "mtls"      // TLS and a workload certificate, port 15012
)

// defaultServerName is the name in istiod's certificate.
const defaultServerName = "istiod.istio-system.svc"

// Behaviours of a proxy.
const (
	BehaviourGood           = "good"
	BehaviourSlowReader     = "slow-reader"     // reads a message, waits, reads the next, through a small window
	BehaviourNeverAcks      = "never-acks"      // accepts everything, acknowledges nothing
	BehaviourRejects        = "rejects"         // accepts the first response of each type, rejects all others with a NACK
	BehaviourReconnectStorm = "reconnect-storm" // drops its stream repeatedly
)

// Behaviours returns the names of all behaviours.
func Behaviours() []string {
	return []string{BehaviourGood, BehaviourSlowReader, BehaviourNeverAcks, BehaviourRejects, BehaviourReconnectStorm}
}

// Types of node, as istiod names them.
const (
	NodeSidecar = "sidecar"
	NodeRouter  = "router"  // a gateway
	NodeZtunnel = "ztunnel" // of an ambient mesh, one per node
)

// Spec describes a fleet.
type Spec struct {
	// Addresses lists istiod's addresses, HOST:PORT; connections are spread over them.
	Addresses []string `json:"addresses"`
	Mode      string   `json:"mode"` // delta or sotw
	Security  Security `json:"security"`
	Mesh      Mesh     `json:"mesh"`
	// Proxies are the proxies to simulate; sightings refer to them by index.
	Proxies []Proxy `json:"proxies"`

	// StreamsPerConnection is the number of proxies that share a connection: 1 as in a
	// real mesh, more to save memory.
	StreamsPerConnection int `json:"streams_per_connection"`
	// Window is the flow-control window of each stream in bytes; pilot-agent uses 1 MiB.
	Window int `json:"window_bytes"`
	// DNSCapture subscribes sidecars to the name table (NDS).
	DNSCapture bool `json:"dns_capture,omitempty"`
	// HBONE makes sidecars and gateways speak HBONE with the pods of an ambient mesh. For
	// that, their Envoys subscribe to all workloads. It requires delta.
	HBONE bool `json:"hbone,omitempty"`
	// MaxConnecting limits the streams waiting for their first response. The
	// fleet starts with one and increases it as istiod admits them.
	MaxConnecting int `json:"max_connecting"`

	// AnswerAfterUS is the mean time from a response to its answer in microseconds, the
	// time that Envoy takes to process the response. 0: no delay.
	AnswerAfterUS int `json:"answer_after_us,omitempty"`

	// SlowReadMS is how long a slow reader pauses after each message.
	SlowReadMS int `json:"slow_read_ms"`
	// StormEveryS is how long a proxy of a reconnect storm keeps its stream,
	// seconds, ±50%.
	StormEveryS float64 `json:"storm_every_s"`

	// Seed is the seed of the fleet's random numbers: jitter of back-off and storms.
	Seed uint64 `json:"seed"`

	// Dial replaces TCP connections, as by a port-forward; nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error) `json:"-"`
}

// Security describes how proxies authenticate.
type Security struct {
	Mode string `json:"mode"` // plaintext, token or mtls
	// RootCA holds the PEM certificates against which istiod's is verified.
	RootCA string `json:"root_ca,omitempty"`
	// ServerName is the name in istiod's certificate; "" means
	// istiod.istio-system.svc.
	ServerName string `json:"server_name,omitempty"`
	// Tokens has a token for each "NAMESPACE/SERVICEACCOUNT"; one under "" serves all
	// others. Istiod checks them against the identity in the node.
	Tokens map[string]string `json:"tokens,omitempty"`
	// Certificates has a workload certificate for each "NAMESPACE/SERVICEACCOUNT"; one
	// under "" serves all others. In mode mtls, identities with a token but no
	// certificate get one signed at the start.
	Certificates map[string]Certificate `json:"certificates,omitempty"`
	// CAAddress is the authority that signs them, HOST:PORT; "" means the first of
	// Addresses.
	CAAddress string `json:"ca_address,omitempty"`
	// TrustDomain is their required trust domain; "" accepts any.
	TrustDomain string `json:"trust_domain,omitempty"`
}

// Certificate is a certificate chain and its key, PEM.
type Certificate struct {
	Chain string `json:"chain"`
	Key   string `json:"key"`
}

// Mesh holds the properties of the mesh that all nodes report.
type Mesh struct {
	ClusterID    string `json:"cluster_id"`    // "" means Kubernetes
	IstioVersion string `json:"istio_version"` // "" means 1.31.0
	MeshID       string `json:"mesh_id"`       // "" means cluster.local
	DNSDomain    string `json:"dns_domain"`    // "" means cluster.local
}

// Proxy is one simulated sidecar, gateway or ztunnel. Istiod looks up its pod by name
// and namespace; without a pod it still gets the configuration of its namespace, but
// nothing inbound.
type Proxy struct {
	Type           string            `json:"type,omitempty"` // sidecar (default), router or ztunnel
	Name           string            `json:"name"`           // of its pod
	Namespace      string            `json:"namespace"`
	IP             string            `json:"ip"`
	ServiceAccount string            `json:"service_account,omitempty"` // "" means default
	Node           string            `json:"node,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Ports          []Port            `json:"ports,omitempty"`
	Behaviour      string            `json:"behaviour,omitempty"` // "" means good
}

// Port is a port of a pod's container.
type Port struct {
	Name          string `json:"name,omitempty"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol,omitempty"`
}

// DefaultSpec returns a fleet without proxies for one istiod, in plaintext.
func DefaultSpec(address string) Spec {
	return Spec{
		Addresses: []string{address}, Mode: ModeDelta, Security: Security{Mode: SecurityPlaintext},
		StreamsPerConnection: 50, Window: 1 << 20, MaxConnecting: 100, SlowReadMS: 200, StormEveryS: 10, Seed: 1,
	}
}

// identity is the key of a proxy in Tokens and Certificates.
func (p *Proxy) identity() string { return p.Namespace + "/" + p.account() }

func (p *Proxy) account() string   { return cmp.Or(p.ServiceAccount, "default") }
func (p *Proxy) behaviour() string { return cmp.Or(p.Behaviour, BehaviourGood) }
func (p *Proxy) nodeType() string  { return cmp.Or(p.Type, NodeSidecar) }

// maxProxies limits a fleet; its indexes are int32.
const maxProxies = 1_000_000

// Validate checks a fleet. Its error is a usage error.
func (s *Spec) Validate() error {
	if len(s.Addresses) == 0 {
		return errs.Usage("xds: no istiod address")
	}
	for _, a := range s.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return errs.Usage("xds: address %.80q: want HOST:PORT", a)
		}
	}
	if s.Mode != ModeDelta && s.Mode != ModeSotW {
		return errs.Usage("xds: mode %.40q: want %s or %s", s.Mode, ModeDelta, ModeSotW)
	}
	for _, bound := range []struct {
		name      string
		got       float64
		low, high float64
	}{
		{"streams_per_connection", float64(s.StreamsPerConnection), 1, 10_000},
		{"window_bytes", float64(s.Window), 4 << 10, math.MaxInt32},
		{"max_connecting", float64(s.MaxConnecting), 1, maxProxies},
		{"answer_after_us", float64(s.AnswerAfterUS), 0, 60_000_000},
		{"slow_read_ms", float64(s.SlowReadMS), 0, 3_600_000},
		{"storm_every_s", s.StormEveryS, 0.01, 86_400},
		{"proxies", float64(len(s.Proxies)), 1, maxProxies},
	} {
		if !(bound.got >= bound.low && bound.got <= bound.high) {
			return errs.Usage("xds: %s is %v: want %v to %v", bound.name, bound.got, bound.low, bound.high)
		}
	}
	for i := range s.Proxies {
		err := s.Proxies[i].validate()
		if err == nil && s.Proxies[i].nodeType() == NodeZtunnel && s.Mode != ModeDelta {
			err = fmt.Errorf("ztunnel supports only delta xDS, not %s", s.Mode)
		}
		if err != nil {
			return errs.Usage("xds: proxy %d: %v", i, err)
		}
	}
	return s.validateSecurity()
}

func (p *Proxy) validate() error {
	switch {
	case p.Name == "" || p.Namespace == "":
		return fmt.Errorf("a name and a namespace are required")
	case strings.ContainsAny(p.Name+p.Namespace, "~"):
		return fmt.Errorf("no ~ in a name")
	case net.ParseIP(p.IP) == nil:
		return fmt.Errorf("IP %.40q is not an address", p.IP)
	case !slices.Contains([]string{NodeSidecar, NodeRouter, NodeZtunnel}, p.nodeType()):
		return fmt.Errorf("type %.40q: want %s, %s or %s", p.Type, NodeSidecar, NodeRouter, NodeZtunnel)
	case !slices.Contains(Behaviours(), p.behaviour()):
		return fmt.Errorf("behaviour %.40q: must be one of %s", p.Behaviour, strings.Join(Behaviours(), ", "))
	}
	return nil
}

func (s *Spec) validateSecurity() error {
	switch s.Security.Mode {
	case SecurityPlaintext:
		return nil
	case SecurityToken, SecurityMTLS:
	default:
		return errs.Usage("xds: security %.40q: want %s, %s or %s", s.Security.Mode, SecurityPlaintext, SecurityToken, SecurityMTLS)
	}
	if s.Security.RootCA == "" {
		return errs.WithHint(errs.Usage("xds: security %s without a root certificate", s.Security.Mode),
			"it is in the ConfigMap istio-ca-root-cert of every namespace")
	}
	for i := range s.Proxies {
		var ok bool
		if s.Security.Mode == SecurityToken {
			_, ok = lookup(s.Security.Tokens, s.Proxies[i].identity())
		} else if _, ok = lookup(s.Security.Certificates, s.Proxies[i].identity()); !ok {
			_, ok = s.Security.Tokens[s.Proxies[i].identity()]
		}
		if !ok {
			return errs.Usage("xds: security %s, but nothing for %s (proxy %d)", s.Security.Mode, s.Proxies[i].identity(), i)
		}
	}
	return nil
}

// lookup finds the entry of an identity, or the one under "".
func lookup[V any](m map[string]V, identity string) (V, bool) {
	if v, ok := m[identity]; ok {
		return v, true
	}
	v, ok := m[""]
	return v, ok
}

// Divide returns the n+1 boundaries of n even parts of things items.
func Divide(things, n int) []int {
	out := make([]int, n+1)
	for i := range out {
		out[i] = things * i / n
	}
	return out
}

// Split returns the Specs of n fleets that divide this one's proxies in order ([Divide]).
// Together they connect as many at a time as one fleet would, but each at least one.
func (s *Spec) Split(n int) ([]Spec, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if n < 1 || n > len(s.Proxies) {
		return nil, errs.WithHint(errs.Usage("simulators %d: each needs a proxy of its own, and there are %d", n, len(s.Proxies)),
			"use more proxies or fewer simulators")
	}
	out := slices.Repeat([]Spec{*s}, n)
	at, connecting := Divide(len(s.Proxies), n), Divide(s.MaxConnecting, n)
	for i := range out {
		out[i].Proxies = s.Proxies[at[i]:at[i+1]:at[i+1]]
		out[i].MaxConnecting = max(1, connecting[i+1]-connecting[i])
		out[i].Seed += uint64(i)
	}
	return out, nil
}
