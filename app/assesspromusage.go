package app

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
)

// containerOf is the container of a proxy, or of istiod, in what kubelets tell.
func containerOf(kind assess.Kind) string {
	if kind == assess.Istiod {
		return "discovery"
	}
	return "istio-proxy"
}

const matchProxies = `container=~"istio-proxy|discovery"`

// containerRef is a container of a pod.
type containerRef struct {
	podRef
	container string
}

// containers returns the highest value of each container of proxies and istiod, however often it is scraped.
func (p *promRead) containers(ctx context.Context, metric, of string) map[containerRef]float64 {
	out := map[containerRef]float64{}
	if !p.has[metric] {
		return out
	}
	_, end := p.over(metric)
	for _, s := range p.instant(ctx, end, "max by ("+podLabels+", container) ("+of+")", metric+p.braces(matchProxies)) {
		if pod := podOf(s.Labels); pod.name != "" && finite(s.Value) {
			c := containerRef{pod, s.Labels["container"]}
			out[c] = max(out[c], s.Value) // of jobs that name it by different labels
		}
	}
	return out
}

// usage reads what proxies and istiod use, from cAdvisor's metrics.
func (p *promRead) usage(ctx context.Context) {
	memory := p.containers(ctx, metricMemory, "%s")
	window, _ := p.over(metricCPU)
	cpu := p.containers(ctx, metricCPU, "rate(%s["+promWindow(window)+"])")
	switch {
	case p.err != nil:
		return
	case p.timesDiffer(metricCPU):
		clear(cpu)
	case p.has[metricCPU] && len(cpu) == 0 && len(memory) == 0 && p.sampled == nil:
		p.unknown(assess.NoContainers.Of(metricCPU))
	case p.has[metricCPU] && len(cpu) == 0:
		p.unknown(assess.NoRates.Of(metricCPU, window.Seconds()))
	}
	type both struct {
		n          int
		live, prom float64
	}
	compared := map[assess.Kind]*both{}
	for i := range p.proxies {
		x := &p.proxies[i]
		c := containerRef{podRef{x.Namespace, x.Pod}, containerOf(x.Kind)}
		cores, measured := cpu[c]
		bytes, held := memory[c]
		switch {
		case !measured || !held:
		case x.Cores == nil || x.Bytes == nil:
			x.Cores, x.Bytes, x.UsageBy = &cores, &bytes, assess.ByPrometheus
		case x.UsageBy == assess.ByItself:
			if compared[x.Kind] == nil {
				compared[x.Kind] = new(both)
			}
			b := compared[x.Kind]
			b.n, b.live, b.prom = b.n+1, b.live+*x.Cores, b.prom+cores
		}
	}
	for _, kind := range assess.Kinds {
		if b := compared[kind]; b != nil && differ(b.live, b.prom, 0.05) {
			p.unknown(assess.UsageDiffers.Of(b.n, string(kind), b.live, b.prom))
		}
	}
}

// differ reports whether two figures of the same differ by more than a fifth. Less than least is noise.
func differ(a, b, least float64) bool {
	return max(a, b) > least && math.Abs(a-b) > 0.2*max(a, b)
}

// list makes proxies of pods that have their containers, or that tell their version, where pods were not listed.
func (p *promRead) list(ctx context.Context) {
	if len(p.proxies) > 0 {
		return
	}
	memory, built := p.containers(ctx, metricMemory, "%s"), p.versions(ctx)
	accompanied := valuesOf(p.count(ctx, metricMemory, `container!~"istio-proxy|discovery|POD|"`, podLabels))
	waypoints := valuesOf(p.count(ctx, generate.MetricRequests, `reporter="waypoint"`, podLabels))
	var pods []podRef
	for c := range memory {
		pods = append(pods, c.podRef)
	}
	if len(pods) == 0 {
		pods = slices.Collect(maps.Keys(built))
	}
	if p.err != nil || len(pods) == 0 {
		return
	}
	slices.SortFunc(pods, func(a, b podRef) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, pod := range slices.Compact(pods) {
		x := assess.Proxy{Kind: assess.Sidecar, Namespace: pod.namespace, Pod: pod.name, Workload: p.inv.WorkloadOf(pod.namespace, pod.name).Name, Version: built[pod].tag}
		_, discovery := memory[containerRef{pod, containerOf(assess.Istiod)}]
		switch {
		case discovery || built[pod].component == "pilot":
			x.Kind = assess.Istiod
		case strings.HasPrefix(pod.name, "ztunnel-") || built[pod].component == "ztunnel":
			x.Kind = assess.Ztunnel
		case waypoints[pod] > 0:
			x.Kind = assess.Waypoint
		case len(accompanied) > 0 && accompanied[pod] == 0:
			x.Kind = assess.Gateway
		}
		p.proxies = append(p.proxies, x)
	}
	p.unknown(assess.NoPods.Of(len(p.proxies)))
	if nodes := len(p.count(ctx, metricPodInfo, `node!=""`, "node")); nodes > 0 {
		p.e.Nodes = nodes
	}
	p.resources(ctx)
}

// build is what an Istio program reports about itself.
type build struct{ component, tag string }

// versions returns what each scraped proxy, ztunnel and istiod reports about itself.
func (p *promRead) versions(ctx context.Context) map[podRef]build {
	out := map[podRef]build{}
	for _, s := range p.count(ctx, metricBuild, "", podLabels+", component, tag") {
		b := build{s.Labels["component"], strings.TrimRight(s.Labels["tag"], ";")} // as proxies of old versions write it
		if b.tag == "unknown" {
			b.tag = ""
		}
		if pod := podOf(s.Labels); pod.name != "" {
			out[pod] = b
		}
	}
	return out
}

// resources reads what containers request and are limited to, from kube-state-metrics.
func (p *promRead) resources(ctx context.Context) {
	at := map[podRef]*assess.Proxy{}
	for i := range p.proxies {
		at[podRef{p.proxies[i].Namespace, p.proxies[i].Pod}] = &p.proxies[i]
	}
	requests := func(x *assess.Proxy) *assess.Resources { return &x.Requests }
	limits := func(x *assess.Proxy) *assess.Resources { return &x.Limits }
	found := 0
	for _, q := range []struct {
		metric string
		of     func(*assess.Proxy) *assess.Resources
	}{
		{"kube_pod_container_resource_requests", requests}, {"kube_pod_init_container_resource_requests", requests},
		{"kube_pod_container_resource_limits", limits}, {"kube_pod_init_container_resource_limits", limits},
	} {
		_, end := p.over(q.metric)
		samples := p.instant(ctx, end, "max by ("+podLabels+", resource, container) (%s)", q.metric+p.braces(matchProxies+`,resource=~"cpu|memory"`))
		found += len(samples)
		for _, s := range samples {
			x := at[podOf(s.Labels)]
			switch {
			case x == nil || !finite(s.Value) || s.Labels["container"] != containerOf(x.Kind):
			case s.Labels["resource"] == "cpu":
				q.of(x).Cores = s.Value
			default:
				q.of(x).Bytes = s.Value
			}
		}
	}
	if p.err == nil && found == 0 {
		p.unknown(assess.NoResources.Of("kube_pod_container_resource_requests"))
	}
}
