package gather

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/testing/must"
)

// dumpOf returns a config dump with these listeners: name and target cluster.
func dumpOf(listeners [][2]string) string {
	var b strings.Builder
	b.WriteString(`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[`)
	for i, l := range listeners {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":%[1]q,"active_state":{"listener":{"@type":"type.googleapis.com/envoy.config.listener.v3.Listener","name":%[1]q,"filter_chains":[{"filters":[{"name":"envoy.filters.network.tcp_proxy",`+
			`"typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy","stat_prefix":%[2]q,"cluster":%[2]q}}]}]}}}`, l[0], l[1])
	}
	b.WriteString(`]}]}`)
	return b.String()
}

// Headless counts the listeners of a headless Service's endpoints, but not those of Services
// with addresses, of HTTP ports, or of other hosts.
func TestHeadless(t *testing.T) {
	const store, web = "outbound|9042||store.data.svc.cluster.local", "outbound|80||web.shop.svc.cluster.local"
	var others, endpoints [][2]string
	for i := range 30 {
		others = append(others, [2]string{fmt.Sprintf("10.96.0.%d_3306", i),
			fmt.Sprintf("outbound|3306||db%d.shop.svc.cluster.local", i)})
	}
	others = append(others, [2]string{"0.0.0.0_80", web}, [2]string{"[::]_80", web}, [2]string{"10.96.1.1_80", web},
		[2]string{"10.96.1.1_81", "outbound|81||web.shop.svc.cluster.local"},
		[2]string{"192.0.2.1_443", "outbound|443||api.example.com"},
		[2]string{"192.0.2.2_443", "outbound|443||api.example.com"})
	for i := range 400 {
		endpoints = append(endpoints, [2]string{fmt.Sprintf("10.244.%d.%d_9042", i/200, i%200+1), store})
	}
	for _, c := range []struct {
		name      string
		listeners [][2]string
		want      int
		low, high float64
		most      string
	}{
		{"none", others, 0, 0, 0, ""},
		{"one endpoint", append(others[:len(others):len(others)], endpoints[0]), 0, 0, 0, ""},
		{"headless", append(others[:len(others):len(others)], endpoints...), 400, 0.85, 0.95,
			"Service data/store has most listeners for single endpoints, 400 of 400 in a proxy"},
		{"nothing", nil, 0, 0, 0, ""},
	} {
		p, err := scope.ReadDump(strings.NewReader(dumpOf(c.listeners)), "a", scope.Options{Keep: KeepListeners})
		must.OK(t, err)
		n, share, most := Headless(p)
		if n != c.want || share < c.low || share > c.high || most != c.most {
			t.Errorf("%s: %d, %g, %q", c.name, n, share, most)
		}
	}
}
