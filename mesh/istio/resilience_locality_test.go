package istio

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// clustersOf returns Envoy's response for a cluster with endpoints, each
// ZONE:PRIORITY.
func clustersOf(name, endpoints string) []byte {
	var hosts []string
	for _, one := range strings.Fields(endpoints) {
		zone, priority, _ := strings.Cut(one, ":")
		host := fmt.Sprintf(`{"locality": {"region": "lab", "zone": %q}`, zone)
		if priority != "0" { // protobuf's JSON omits it
			host += `, "priority": ` + priority
		}
		hosts = append(hosts, host+"}")
	}
	return fmt.Appendf(nil, `{"cluster_statuses": [{"name": "other"}, {"name": %q, "host_statuses": [%s]}]}`, name, strings.Join(hosts, ","))
}

func TestCheckLocality(t *testing.T) {
	const prefer, ignore = study.LocalityPrefer, study.LocalityIgnore
	for _, c := range []struct{ level, endpoints, want string }{
		{"default", "a:0 b:1", "-"}, {"-", "a:1", "-"}, {"", "", "-"},
		{ignore, "a:0 b:0 c:0", ""}, {ignore, "a:0 b:1 c:1", "bar: 2 of 3 endpoints do not have the highest priority"}, {ignore, "", "has no endpoints"},
		{prefer, "a:0 b:1 c:1", ""}, {prefer, "a:0 a:0", ""}, {prefer, "b:0 c:0", ""}, // no endpoint is near
		{prefer, "a:0 b:0 c:1", "1 of 2 endpoints outside zone lab/a have the highest priority too"},
		{prefer, "a:1 b:0", "1 of 1 endpoints of zone lab/a do not have the highest priority"},
		{prefer, "", "has no endpoints"},
	} {
		got := (&Mesh{}).CheckLocality(clustersOf(clusterOf(recordedRoute), c.endpoints), "lab/a", []mesh.Route{recordedRoute}, record.Cell{study.FactorLocality: c.level})
		switch {
		case c.want == "-":
			if len(got) > 0 {
				t.Errorf("%s of %q: %+v", c.level, c.endpoints, got)
			}
		case len(got) != 1 || got[0].OK != (c.want == "") || !strings.Contains(got[0].Detail, c.want) || got[0].Name != study.FactorLocality:
			t.Errorf("%s of %q: %+v, want %q", c.level, c.endpoints, got, c.want)
		}
	}
	if got := (&Mesh{}).CheckLocality([]byte("outbound::1"), "lab/a", nil, record.Cell{study.FactorLocality: prefer}); len(got) != 1 || got[0].OK {
		t.Errorf("an answer that is no JSON: %+v", got)
	}
}

// The setting is combined with the balancer's. It prefers nothing if outlier
// detection is off.
func TestLocalityObjects(t *testing.T) {
	policy := func(levels record.Cell) string {
		return fmt.Sprint(trafficPolicy(untouched.With(levels))["loadBalancer"])
	}
	for want, levels := range map[string]record.Cell{
		"<nil>": {study.FactorLocality: "default"},
		"map[localityLbSetting:map[enabled:false]]":              {study.FactorLocality: study.LocalityIgnore},
		"map[localityLbSetting:map[enabled:true] simple:RANDOM]": {study.FactorLocality: study.LocalityPrefer, study.FactorLoadBalancer: "random"},
	} {
		if got := policy(levels); got != want {
			t.Errorf("%v: %s, want %s", levels, got, want)
		}
	}
	lacking := func(levels record.Cell) int { return len((&Mesh{}).Lacks(untouched.With(levels))) }
	if lacking(record.Cell{study.FactorLocality: study.LocalityPrefer}) != 1 ||
		lacking(record.Cell{study.FactorLocality: study.LocalityPrefer, study.FactorOutlierDetection: "errors=5"}) != 0 || lacking(record.Cell{study.FactorLocality: study.LocalityIgnore}) != 0 {
		t.Error("prefer needs outlier detection, ignore does not")
	}
}

func TestEndpoints(t *testing.T) {
	const answer = `{"cluster_statuses": [
{"name": "outbound|8080||server.run.svc.cluster.local", "host_statuses": [{"address": {"socket_address": {"address": "10.160.0.7", "port_value": 8080}}}, {"address": {"socket_address": {"address": "10.160.0.5", "port_value": 8080}}}]},
{"name": "outbound|9090||server.run.svc.cluster.local", "host_statuses": [{"address": {"socket_address": {"address": "10.160.0.5", "port_value": 9090}}}]},
{"name": "outbound|8080|v1|server.run.svc.cluster.local", "host_statuses": [{"address": {"socket_address": {"address": "10.160.0.8", "port_value": 8080}}}]},
{"name": "outbound|8080||ambient.run.svc.cluster.local", "host_statuses": [{"address": {"envoy_internal_address": {"server_listener_name": "connect_originate", "endpoint_id": "10.160.0.9:8080"}}}]},
{"name": "outbound|8080||empty.run.svc.cluster.local"},
{"name": "outbound|8080||server.run2.svc.cluster.local", "host_statuses": [{"address": {"socket_address": {"address": "10.160.0.10", "port_value": 8080}}}]},
{"name": "inbound|8080||", "host_statuses": [{"address": {"socket_address": {"address": "10.160.0.11", "port_value": 8080}}}]},
{"name": "xds-grpc"}]}`
	got, err := (&Mesh{}).Endpoints([]byte(answer), "run")
	want := map[string][]string{"server": {"10.160.0.5", "10.160.0.7"}, "ambient": {""}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := (&Mesh{}).Endpoints([]byte("no"), "run"); err == nil {
		t.Error("no error for what is no JSON")
	}
}

// Weights of zones add up to 100 for callers of each.
func TestWeighZones(t *testing.T) {
	cell := untouched.With(record.Cell{study.FactorLocality: "own=75%"})
	for want, zones := range map[string][]string{
		"[map[from:lab/a/* to:map[lab/a/*:75 lab/b/*:13 lab/c/*:12]] map[from:lab/b/* to:map[lab/a/*:13 lab/b/*:75 lab/c/*:12]] map[from:lab/c/* to:map[lab/a/*:13 lab/b/*:12 lab/c/*:75]]]": {"lab/a", "lab/b", "lab/c"},
		"[map[from:lab/a/* to:map[lab/a/*:100]]]": {"lab/a"},
	} {
		rule := (&Mesh{}).Traffic(bar, cell, zones)[0]
		asYAML(t, rule) // panics on other types of numbers
		balancer := rule.Object["spec"].(map[string]any)["trafficPolicy"].(map[string]any)["loadBalancer"].(map[string]any)
		if got := fmt.Sprint(balancer["localityLbSetting"].(map[string]any)["distribute"]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if path := (&Mesh{}).LocalityPath(cell); !strings.Contains(path, "include_eds") || (&Mesh{}).LocalityPath(untouched) != (&Mesh{}).EndpointsPath() {
		t.Errorf("the weights are read at %s", path)
	}
}

func TestCheckWeights(t *testing.T) {
	dump := func(a, b int) []byte {
		return fmt.Appendf(nil, `{"configs": [{"endpoint_config": {"cluster_name": "other"}}, {"endpoint_config": {"cluster_name": %q, "endpoints": [
{"locality": {"region": "lab", "zone": "a"}, "load_balancing_weight": %d}, {"locality": {"region": "lab", "zone": "b"}, "load_balancing_weight": %d}]}}]}`, clusterOf(bar), a, b)
	}
	for _, c := range []struct {
		answer []byte
		ok     bool
	}{{dump(80, 20), true}, {dump(20, 80), false}, {dump(80, 80), false}, {[]byte(`{}`), false}, {[]byte(`no`), false}} {
		got := (&Mesh{}).CheckLocality(c.answer, "lab/a", []mesh.Route{bar}, record.Cell{study.FactorLocality: "own=80%"})
		if len(got) != 1 || got[0].OK != c.ok || got[0].Name != study.FactorLocality {
			t.Errorf("%s: %+v", c.answer, got)
		}
	}
}
