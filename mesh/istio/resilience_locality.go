package istio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

var (
	_ mesh.LocalityChecker = (*Mesh)(nil)
	_ mesh.Endpointed      = (*Mesh)(nil)
)

// EndpointsPath returns Envoy's path: see envoy/admin/v3/clusters.proto.
func (*Mesh) EndpointsPath() string { return "/clusters?format=json" }

// endpointsKnown are a proxy's endpoints by cluster.
type endpointsKnown struct {
	Clusters []struct {
		Name  string `json:"name"`
		Hosts []struct {
			Address struct {
				Socket struct {
					Address string `json:"address"`
				} `json:"socket_address"` // absent: reached through a listener of the proxy itself
			} `json:"address"`
			Priority int `json:"priority"` // absent: 0, the highest priority
			Locality struct {
				Region string `json:"region"`
				Zone   string `json:"zone"`
			} `json:"locality"`
		} `json:"host_statuses"`
	} `json:"cluster_statuses"`
}

// Endpoints returns those of the clusters of whole Services,
// outbound|PORT||HOST.
func (*Mesh) Endpoints(answer []byte, namespace string) (map[string][]string, error) {
	var known endpointsKnown
	if err := json.Unmarshal(answer, &known); err != nil {
		return nil, fmt.Errorf("endpoints of the sidecar: %w", err)
	}
	out := map[string][]string{}
	for _, c := range known.Clusters {
		parts := strings.Split(c.Name, "|")
		if len(parts) != 4 || parts[0] != "outbound" || parts[2] != "" {
			continue
		}
		service, rest, _ := strings.Cut(parts[3], ".")
		if !strings.HasPrefix(rest, namespace+".svc.") {
			continue
		}
		for _, h := range c.Hosts {
			out[service] = append(out[service], h.Address.Socket.Address)
		}
	}
	for service, addresses := range out {
		slices.Sort(addresses)
		out[service] = slices.Compact(addresses)
	}
	return out, nil
}

// CheckLocality compares the priorities that istiod assigned to endpoints with
// their zones. Istio assigns them by locality if it prefers one; otherwise all
// endpoints have the first.
func (*Mesh) CheckLocality(endpoints []byte, zone string, routes []mesh.Route, cell record.Cell) []record.Check {
	want := level(cell, study.FactorLocality)
	if want == "" {
		return nil // the mesh's own default
	}
	var known endpointsKnown
	if err := json.Unmarshal(endpoints, &known); err != nil {
		return []record.Check{{Name: study.FactorLocality, Detail: fmt.Sprintf("endpoints of the proxy: %v", err)}}
	}
	var wrong []string
	all, own := 0, 0
	for _, r := range routes {
		n, near, far, late := 0, 0, 0, 0 // far: endpoints in other zones without top priority; late: endpoints in the same zone without it
		for _, c := range known.Clusters {
			if c.Name != clusterOf(r) {
				continue
			}
			for _, h := range c.Hosts {
				n++
				switch same := h.Locality.Region+"/"+h.Locality.Zone == zone; {
				case same && h.Priority == 0:
					near++
				case same:
					late++
				case h.Priority > 0:
					far++
				}
			}
		}
		all, own = all+n, own+near+late
		others := n - near - late
		switch {
		case n == 0:
			wrong = append(wrong, r.Name+": the proxy has no endpoints of it")
		case want == study.LocalityIgnore && late+far > 0:
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d endpoints do not have the highest priority", r.Name, late+far, n))
		case want == study.LocalityPrefer && late > 0:
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d endpoints of zone %s do not have the highest priority", r.Name, late, near+late, zone))
		case want == study.LocalityPrefer && near > 0 && far < others:
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d endpoints outside zone %s have the highest priority too", r.Name, others-far, others, zone))
		}
	}
	return []record.Check{check(study.FactorLocality, wrong, fmt.Sprintf("the caller's proxy in zone %s has %s: %d of %d endpoints are in its zone", zone, want, own, all))}
}
