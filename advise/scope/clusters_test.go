package scope

import (
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshtrial/meshtrial/testing/must"
)

const clustersText = `outbound|80||a.b.svc.cluster.local::observability_name::outbound|80||a.b.svc.cluster.local
outbound|80||a.b.svc.cluster.local::default_priority::max_connections::4294967295
outbound|80||a.b.svc.cluster.local::high_priority::max_requests::1024
outbound|80||a.b.svc.cluster.local::added_via_api::true
outbound|80||a.b.svc.cluster.local::10.1.0.7:8080::cx_active::1
outbound|80||a.b.svc.cluster.local::10.1.0.7:8080::cx_total::2
outbound|80||a.b.svc.cluster.local::10.1.0.7:8080::rq_error::1
outbound|80||a.b.svc.cluster.local::10.1.0.7:8080::rq_success::4
outbound|80||a.b.svc.cluster.local::10.1.0.7:8080::rq_total::5
outbound|80||a.b.svc.cluster.local::10.1.0.7:8080::hostname::
outbound|80||a.b.svc.cluster.local::10.1.0.7:8080::success_rate::-1
outbound|80||a.b.svc.cluster.local::[fd00::8]:8080::cx_total::9
outbound|80||a.b.svc.cluster.local::[fd00::8]:8080::rq_total::9
outbound|80||a.b.svc.cluster.local::10.1.0.9:8080::rq_total::0
inbound|9090||::outlier::success_rate_average::-1
inbound|9090||::10.1.0.5:9090::cx_total::1
inbound|9090||::10.1.0.5:9090::rq_total::3
xds-grpc::127.0.0.1:15010::cx_total::1
xds-grpc::127.0.0.1:15010::rq_total::1
cut::127.0.0.1:15010::rq_total::7`

func TestReadClusters(t *testing.T) {
	c, err := ReadClusters(strings.NewReader(clustersText))
	must.OK(t, err)
	if want := map[string]int64{"outbound|80||a.b.svc.cluster.local": 14, "inbound|9090||": 3, "xds-grpc": 1}; !maps.Equal(c.Calls, want) {
		t.Errorf("calls: %v", c.Calls)
	}
	a := c.Endpoints["outbound|80||a.b.svc.cluster.local"]
	if want := map[string]Count{"10.1.0.7:8080": {5, true, 1}, "[fd00::8]:8080": {9, false, 0}}; !maps.Equal(a, want) {
		t.Errorf("endpoints: %v", a)
	}
	// Streams that have not ended are more than their connections.
	if in := c.Endpoints["inbound|9090||"]["10.1.0.5:9090"]; in != (Count{3, true, 0}) {
		t.Errorf("streams: %+v", in)
	}
}

// Both forms of the page count the same.
func TestClustersInBothForms(t *testing.T) {
	json := `{"cluster_statuses":[{"name":"a","host_statuses":[{"address":{"socket_address":{"address":"fd00::8","port_value":80}},"stats":[{"name":"rq_total","value":"5"},{"name":"cx_total","value":"2"}]},{"address":{"pipe":{"path":"./x"}},"stats":[{"name":"rq_total","value":"1"}]}]}]}`
	one, err := ReadCounts(strings.NewReader(json))
	must.OK(t, err)
	two, err := ReadClusters(strings.NewReader("a::[fd00::8]:80::cx_total::2\na::[fd00::8]:80::rq_total::5\na::{\"pipe\":{\"path\":\"./x\"}}::rq_total::1\n"))
	must.OK(t, err)
	if !maps.Equal(one.Calls, two.Calls) || !maps.Equal(one.Endpoints["a"], two.Endpoints["a"]) {
		t.Errorf("%v, %v", one, two)
	}
}

func TestReadClustersFails(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "another page": "a log\n", "cut": "a::1.2.3.4:5::rq_total::7", "long": strings.Repeat("x", 3*maxClusterLine) + "::1.2.3.4:5::rq_total::7\n"} {
		if _, err := ReadClusters(strings.NewReader(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	gone := errors.New("the disk is gone")
	if _, err := ReadClusters(io.MultiReader(strings.NewReader(clustersText), iotest.ErrReader(gone))); !errors.Is(err, gone) {
		t.Error(err)
	}
}

func FuzzReadClusters(f *testing.F) {
	f.Add(clustersText)
	f.Add("::::::\na::::b::1\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadClusters(strings.NewReader(text))
		for cluster, endpoints := range c.Endpoints {
			for address, n := range endpoints {
				if n.Requests < 1 || err != nil {
					t.Errorf("%q of %q: %+v, %v", address, cluster, n, err)
				}
			}
		}
	})
}
