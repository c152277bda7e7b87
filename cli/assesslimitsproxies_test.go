package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Only the configuration of the given trials counts: the mean number of clusters resolved by DNS,
// and the listeners of headless Services with the Service's name.
func TestRecordedFacts(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, store.DirConfigs), 0o755))
	dump := func(dns, endpoints int) []byte {
		var clusters, listeners []string
		for i := range dns {
			clusters = append(clusters,
				fmt.Sprintf(`{"cluster":{"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":"outbound|443||h%d.example.com","type": "STRICT_DNS"}}`, i))
		}
		for i := range endpoints {
			listeners = append(listeners,
				fmt.Sprintf(`{"name":"10.1.0.%[1]d_9042","active_state":{"listener":{"@type":"type.googleapis.com/envoy.config.listener.v3.Listener","name":"10.1.0.%[1]d_9042","filter_chains":[{"filters":[`+
					`{"name":"tcp","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy","cluster":"outbound|9042||store.data.svc.cluster.local"}}]}]}}}`, i+1))
		}
		return fmt.Appendf(nil, `{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[%s]},{"@type":"type.googleapis.com/envoy.admin.v3.ListenersConfigDump","dynamic_listeners":[%s]}]}`,
			strings.Join(clusters, ","), strings.Join(listeners, ","))
	}
	for name, text := range map[string][]byte{"b000-t00-a.json": dump(30, 60), "b000-t00-b.json": dump(10, 0),
		"b000-t01-a.json": dump(500, 200)} {
		must.OK(t, os.WriteFile(filepath.Join(dir, store.DirConfigs, name), text, 0o644))
	}
	facts, notes := recordedFacts(t.Context(), dir)([]*record.Trial{{ID: "b000-t00"}})
	if facts[advice.DNSClusters] != 30 || facts[advice.DNSClustersMean] != 20 ||
		facts[advice.HeadlessListeners] != 60 || !(facts[advice.HeadlessShare] > 0.5) {
		t.Errorf("%v", facts)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "data/store") {
		t.Errorf("%q", notes)
	}
}
