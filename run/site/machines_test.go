package site

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// A node's machine is what its observer says, or else the API server; each node of a part
// is named once.
func TestNodesOf(t *testing.T) {
	node := func(name string) runtime.Object {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelInstanceTypeStable: "m5", corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "eu"}}}
		n.Status.NodeInfo = corev1.NodeSystemInfo{Architecture: "amd64", KernelVersion: "6.1"}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
		return n
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jsonhttp.Answer(w, record.Machine{CPUModel: "EPYC", NodeArch: "amd64", CPUs: 2, Kernel: "6.2"})
	}))
	defer server.Close()
	s := &Site{Kube: fakecluster.New(node("a"), node("b")), Observers: map[string]observe.Client{"b": {HTTPClient: server.Client(), BaseURL: server.URL}}}
	got := s.NodesOf(t.Context(), map[string][]string{record.PartControl: {"b", "a", "b"}, record.PartSimulator: {"gone"}})
	want := map[string]record.NodeAt{
		record.PartControl:                   {Name: "a", Zone: "eu/a", Machine: "m5, amd64, 8 CPUs, Linux 6.1"},
		record.OfHand(record.PartControl, 1): {Name: "b", Zone: "eu/a", Machine: "EPYC, amd64, 2 CPUs, Linux 6.2"},
		record.PartSimulator:                 {Name: "gone"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
