package wire

import (
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshtrial/meshtrial/testing/must"
)

func assignment(t *testing.T, health map[string]core.HealthStatus) []byte {
	t.Helper()
	locality := &endpointv3.LocalityLbEndpoints{}
	for address, state := range health {
		locality.LbEndpoints = append(locality.LbEndpoints, &endpointv3.LbEndpoint{
			HealthStatus: state,
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &core.Address{Address: &core.Address_SocketAddress{
				SocketAddress: &core.SocketAddress{Address: address, PortSpecifier: &core.SocketAddress_PortValue{PortValue: 80}}}}}},
		})
	}
	body, err := proto.Marshal(&endpointv3.ClusterLoadAssignment{ClusterName: "outbound|80||a", Endpoints: []*endpointv3.LocalityLbEndpoints{{}, locality}})
	must.OK(t, err)
	return body
}

func TestServes(t *testing.T) {
	body := assignment(t, map[string]core.HealthStatus{
		"240.0.0.12": core.HealthStatus_UNKNOWN, "240.0.0.2": core.HealthStatus_HEALTHY, "240.0.0.3": core.HealthStatus_UNHEALTHY,
		"240.0.0.4": core.HealthStatus_DRAINING, "240.0.0.5": core.HealthStatus_TIMEOUT, "240.0.0.6": core.HealthStatus_DEGRADED,
	})
	for address, want := range map[string]bool{
		"240.0.0.12": true, "240.0.0.2": true, "240.0.0.6": true,
		"240.0.0.1": false, // only a prefix of another
		"240.0.0.3": false, "240.0.0.4": false, "240.0.0.5": false, "240.0.0.9": false,
	} {
		got, err := Serves(body, []byte(address))
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", address, got, err, want)
		}
	}
	if got, err := Serves(nil, []byte("240.0.0.1")); got || err != nil {
		t.Errorf("no endpoints: %v, %v", got, err)
	}
	if _, err := Serves(body[:len(body)-3], []byte("240.0.0.9")); err == nil {
		t.Error("a body cut short is no error")
	}
}

func FuzzServes(f *testing.F) {
	f.Add([]byte{0x12, 0x02, 0x12, 0x00}, "240.0.0.1")
	f.Add([]byte{0x12, 0x80}, "")
	f.Fuzz(func(t *testing.T, body []byte, address string) {
		_, _ = Serves(body, []byte(address)) // must neither panic nor loop forever
	})
}
