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

// locality is where an endpoint is.
type locality struct {
	Region string `json:"region"`
	Zone   string `json:"zone"`
}

// String formats it as REGION/ZONE.
func (l locality) String() string { return l.Region + "/" + l.Zone }

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
			Priority int      `json:"priority"` // absent: 0, the highest priority
			Locality locality `json:"locality"`
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
	if share, ok := study.OwnZone(want); ok {
		return checkWeights(endpoints, zone, routes, share)
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
				switch same := h.Locality.String() == zone; {
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

// LocalityPath returns Envoy's path: weights of localities are only in the configuration.
func (m *Mesh) LocalityPath(cell record.Cell) string {
	if _, weighs := study.OwnZone(level(cell, study.FactorLocality)); weighs {
		return "/config_dump?include_eds&resource=dynamic_endpoint_configs"
	}
	return m.EndpointsPath()
}

// weighZones adds to a traffic policy how callers of each zone distribute requests, if
// the cell sets their own zone's share. See istio.io/docs, Reference, Destination
// Rule, LocalityLoadBalancerSetting.
func weighZones(policy map[string]any, cell record.Cell, zones []string) {
	share, ok := study.OwnZone(level(cell, study.FactorLocality))
	if !ok {
		return
	}
	var all []any
	for _, from := range zones {
		to := map[string]any{from + "/*": int64(100)}
		rest, others := int64(100-share), int64(len(zones)-1)
		for _, zone := range zones {
			if zone != from { // whole percentages that add up to the rest
				part := (rest + others - 1) / others
				to[zone+"/*"], rest, others = part, rest-part, others-1
			}
		}
		if len(zones) > 1 {
			to[from+"/*"] = int64(share)
		}
		all = append(all, map[string]any{"from": from + "/*", "to": to})
	}
	balancer := policy["loadBalancer"].(map[string]any) // the level is set
	balancer["localityLbSetting"].(map[string]any)["distribute"] = all
}

// weights are a proxy's endpoints with the weights of localities. See
// envoy/config/endpoint/v3/endpoint.proto.
type weights struct {
	Configs []struct {
		Endpoints struct {
			Cluster    string `json:"cluster_name"`
			Localities []struct {
				Locality locality `json:"locality"`
				Weight   int64    `json:"load_balancing_weight"`
			} `json:"endpoints"`
		} `json:"endpoint_config"`
	} `json:"configs"`
}

// checkWeights verifies the weight of a caller's own zone.
func checkWeights(dump []byte, zone string, routes []mesh.Route, share int) []record.Check {
	var known weights
	if err := json.Unmarshal(dump, &known); err != nil {
		return []record.Check{{Name: study.FactorLocality, Detail: fmt.Sprintf("endpoints of the proxy: %v", err)}}
	}
	var wrong []string
	for _, r := range routes {
		own, all := int64(0), int64(0)
		for _, c := range known.Configs {
			if c.Endpoints.Cluster != clusterOf(r) {
				continue
			}
			for _, l := range c.Endpoints.Localities {
				all += l.Weight
				if l.Locality.String() == zone {
					own += l.Weight
				}
			}
		}
		if all != 100 || own != int64(share) {
			wrong = append(wrong, fmt.Sprintf("%s: zone %s has a weight of %d of %d", r.Name, zone, own, all))
		}
	}
	return []record.Check{check(study.FactorLocality, wrong, fmt.Sprintf("the caller's proxy in zone %s gives that zone a weight of %d%%", zone, share))}
}
