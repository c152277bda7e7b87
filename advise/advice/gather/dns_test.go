package gather

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/meshtrial/meshtrial/internal/confile"
)

const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

func TestDNSClusters(t *testing.T) {
	var file bytes.Buffer
	w, err := confile.NewWriter(&file, confile.Header{Proxy: "a.b", Type: "sidecar"})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []cluster.Cluster_DiscoveryType{cluster.Cluster_STATIC, cluster.Cluster_STRICT_DNS,
		cluster.Cluster_EDS, cluster.Cluster_LOGICAL_DNS, cluster.Cluster_ORIGINAL_DST} {
		body, err := proto.Marshal(&cluster.Cluster{Name: "c", ClusterDiscoveryType: &cluster.Cluster_Type{Type: kind}})
		if err == nil {
			err = w.Write(confile.Resource{TypeURL: clusterType, Name: "c", Body: body})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := DNSClusters(&file); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := DNSClusters(strings.NewReader(`{"meshtrial_configuration":1,"proxy":"a"}` + "\n{")); err == nil {
		t.Error("half a resource is no error")
	}
}

// However a dump comes, all its clusters are counted once.
func TestDNSClustersOfADump(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		want := rapid.IntRange(0, 30).Draw(t, "clusters")
		for range want {
			text.WriteString(strings.Repeat("x", rapid.IntRange(0, 9000).Draw(t, "between")))
			text.WriteString(rapid.SampledFrom([]string{`"type": "STRICT_DNS"`, `"type":"LOGICAL_DNS"`,
				`"STRICT_DNS""EDS"`}).Draw(t, "type"))
		}
		for name, r := range map[string]interface{ Read([]byte) (int, error) }{
			"at once":   strings.NewReader(text.String()),
			"by bytes":  iotest.OneByteReader(strings.NewReader(text.String())),
			"by halves": iotest.HalfReader(strings.NewReader(text.String())),
		} {
			if n, err := DNSClusters(r); n != want || err != nil {
				t.Fatalf("%s: %d of %d, %v", name, n, want, err)
			}
		}
	})
}

// What a run kept of simulated sidecars is read.
func TestDNSClustersOfARun(t *testing.T) {
	files, err := filepath.Glob("../../../kinds/testdata/control-plane/configs/*" + confile.Extension)
	if err != nil || len(files) == 0 {
		t.Fatalf("no configuration in the recorded run: %v", err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		packed, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := DNSClusters(packed); n != 0 || err != nil { // Services of Kubernetes have endpoints
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}
