package churn

import (
	"fmt"
	"hash/fnv"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/record"
)

// Changes to the pods of a Service.
const (
	podScaleUp   = "scale-up"
	podScaleDown = "scale-down"
	podReplace   = "replace"
	podUnready   = "unready"
	podReady     = "ready"
	podRestart   = "restart"
	podLabel     = "label"
)

// maxTargets is the number of Services whose endpoints change in turn, so that a change is
// complete long before the same endpoint changes again.
const maxTargets = 64

// endpoints adds a change of endpoints. If the cluster's controllers make it, its markers
// are addresses that the cluster assigns.
func (b *builder) endpoints(kind string, n int) {
	if b.spec.Endpoints == EndpointsDirect {
		b.endpointsDirect(kind, n)
		return
	}
	target, again := b.endpointsOf(kind, n)
	var service population.Service
	if b.spec.On != nil {
		service, again = *b.spec.On, n%2
	} else {
		service = b.spec.Population.Service(target)
	}
	c := Change{Op: "scale", Object: "Deployment/" + service.Namespace + "/" + service.Name, Late: true, Scope: visible(service.Namespace),
		pods: &podChange{service: service}}
	switch kind {
	case KindEndpointsScale:
		c.pods.op = []string{podScaleUp, podScaleDown}[again]
	case KindEndpointsFlap:
		c.Op, c.pods.op = "patch", []string{podUnready, podReady}[again]
	case KindEndpointsReplace:
		c.Op, c.pods.op = "delete", podReplace
	case KindRollingRestart:
		c.Op, c.pods.op = "patch", podRestart
	}
	b.append(c)
}

// classes groups kinds that may change the endpoints of the same Service. Different
// classes use different Services: an unready pod, for example, would affect which pod a
// scale-down removes.
var classes = map[string]int{KindEndpointsReplace: 0, KindRollingRestart: 0, KindPodLabels: 0, KindEndpointsFlap: 1, KindEndpointsScale: 2}

const classCount = 3

// endpointsOf returns the Service whose endpoints change n of a kind changes, and 1 if it
// is the second change of a pair, which reverts the first.
func (b *builder) endpointsOf(kind string, n int) (service int, again int) {
	first, step := 0, 1
	if b.spec.Trace != nil || b.spec.Kind == KindMixed {
		first, step = classes[kind], classCount
	}
	count := max(1, min(maxTargets, (b.spec.Population.Services-first+step-1)/step))
	return first + n%count*step, n / count % 2
}

// podLabels gives a pod another canonical revision, which appears in the metadata of its
// endpoint. See istio.io/istio/pilot/pkg/networking/util, AppendLbEndpointMetadata.
func (b *builder) podLabels(_ string, n int) {
	target, _ := b.endpointsOf(KindPodLabels, n)
	service := b.spec.Population.Service(target)
	b.append(Change{Op: "patch", Object: "Deployment/" + service.Namespace + "/" + service.Name, Scope: visible(service.Namespace),
		pods: &podChange{service: service, op: podLabel, text: b.text()}}, eds(service, b.text(), false), workload(b.text(), false))
}

// eds marks an address or other text that appears in or disappears from a Service's
// endpoints.
func eds(s population.Service, text string, gone bool) record.Marker {
	return record.Marker{Type: "eds", Resource: s.Cluster(""), Text: text, Gone: gone}
}

// workload marks the same in the workloads of ztunnels. The name of the resource depends
// on its creator.
func workload(text string, gone bool) record.Marker {
	return record.Marker{Type: "wds", Text: text, Gone: gone}
}

// directSlice is one of the plan's own EndpointSlices, in addition to those of the
// controllers. Its addresses do not exist.
type directSlice struct {
	service   population.Service
	object    *unstructured.Unstructured
	endpoints []directEndpoint
}

type directEndpoint struct {
	address string
	ready   bool
}

// directEndpoints is the initial number of addresses of a slice.
const directEndpoints = 2

// slice returns the slice of a Service, preparing a new one if needed.
func (b *builder) slice(target int) *directSlice {
	if d := b.direct[target]; d != nil {
		return d
	}
	service := b.spec.Population.Service(target)
	d := &directSlice{service: service}
	for range directEndpoints {
		d.endpoints = append(d.endpoints, directEndpoint{b.address(), true})
	}
	d.object = b.object("discovery.k8s.io/v1", "EndpointSlice", service.Namespace, "mm-"+b.spec.Trial+"-"+service.Name, nil)
	labels := d.object.GetLabels()
	labels["kubernetes.io/service-name"] = service.Name
	labels["endpointslice.kubernetes.io/managed-by"] = "meshtrial"
	d.object.SetLabels(labels)
	d.object.Object["addressType"] = "IPv4"
	d.object.Object["ports"] = []any{map[string]any{"name": "http", "port": int64(population.TargetPort), "protocol": "TCP"}}
	d.object.Object["endpoints"] = d.list()
	b.direct[target] = d
	b.prepare(d.object)
	return d
}

func (d *directSlice) list() []any {
	out := make([]any, 0, len(d.endpoints))
	for _, e := range d.endpoints {
		out = append(out, map[string]any{"addresses": []any{e.address}, "conditions": map[string]any{"ready": e.ready, "serving": e.ready, "terminating": false}})
	}
	return out
}

// address returns a new address from a range that is never routed. It differs from those
// of simulated pods and, most likely, from those of other trials.
func (b *builder) address() string {
	h := fnv.New32a()
	h.Write([]byte(b.spec.Trial))
	i := b.slots["address"]
	b.slots["address"]++
	return fmt.Sprintf("%d.%d.%d.%d", 241+h.Sum32()%14, 100+i/(156*156)%156, 100+i/156%156, 100+i%156)
}

// endpointsDirect adds a change to one of the plan's own EndpointSlices.
func (b *builder) endpointsDirect(kind string, n int) {
	target, again := b.endpointsOf(kind, n)
	d := b.slice(target)
	var markers []record.Marker
	var writes []write
	change := func() {
		writes = append(writes, write{d.object, annotated(map[string]any{"endpoints": d.list()}, b.index())})
	}
	mark := func(address string, gone bool) {
		markers = append(markers, eds(d.service, address, gone), workload(address, gone))
	}
	replace := func(i int) {
		mark(d.endpoints[i].address, true)
		d.endpoints = append(slices.Delete(slices.Clone(d.endpoints), i, i+1), directEndpoint{b.address(), true})
		mark(d.endpoints[len(d.endpoints)-1].address, false)
		change()
	}
	switch {
	case kind == KindEndpointsScale && again == 0:
		d.endpoints = append(d.endpoints, directEndpoint{b.address(), true})
		mark(d.endpoints[len(d.endpoints)-1].address, false)
		change()
	case kind == KindEndpointsScale:
		last := len(d.endpoints) - 1
		mark(d.endpoints[last].address, true)
		d.endpoints = d.endpoints[:last]
		change()
	case kind == KindEndpointsFlap:
		d.endpoints[0].ready = again == 1
		mark(d.endpoints[0].address, again == 0)
		change()
	case kind == KindEndpointsReplace:
		replace(0)
	case kind == KindRollingRestart:
		for range len(d.endpoints) {
			replace(0)
		}
	}
	b.append(Change{Op: "patch", Object: population.Key(d.object), Scope: visible(d.service.Namespace), writes: writes}, markers...)
}
