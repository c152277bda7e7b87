package app

import (
	"cmp"
	"context"
	"fmt"
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
func (p *promRead) containers(ctx context.Context, metric, of string) (map[containerRef]float64, error) {
	out := map[containerRef]float64{}
	if !p.has[metric] {
		return out, nil
	}
	_, end := p.over(metric)
	samples, err := p.source.Instant(ctx, "max by ("+podLabels+", container) ("+fmt.Sprintf(of, metric+p.braces(matchProxies))+")", end)
	for _, s := range samples {
		if pod := podOf(s.Labels); pod.name != "" && finite(s.Value) {
			c := containerRef{pod, s.Labels["container"]}
			out[c] = max(out[c], s.Value) // of jobs that name it by different labels
		}
	}
	return out, err
}

// usage reads what proxies and istiod use, from cAdvisor's metrics.
func (p *promRead) usage(ctx context.Context) error {
	memory, err := p.containers(ctx, metricMemory, "%s")
	if err != nil {
		return err
	}
	window, _ := p.over(metricCPU)
	cpu, err := p.containers(ctx, metricCPU, "rate(%s["+promWindow(window)+"])")
	if err != nil {
		return err
	}
	switch {
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
	return nil
}

// differ reports whether two figures of the same differ by more than a fifth. Less than least is noise.
func differ(a, b, least float64) bool {
	return max(a, b) > least && math.Abs(a-b) > 0.2*max(a, b)
}

// list makes proxies of pods that have their containers, or that tell their version, where pods were not listed.
func (p *promRead) list(ctx context.Context) error {
	if len(p.proxies) > 0 {
		return nil
	}
	memory, err := p.containers(ctx, metricMemory, "%s")
	if err != nil {
		return err
	}
	built, err := p.versions(ctx)
	if err != nil {
		return err
	}
	_, end := p.over(metricMemory)
	others, err := p.source.Instant(ctx, "count by ("+podLabels+") ("+metricMemory+p.braces(`container!~"istio-proxy|discovery|POD|"`)+")", end)
	if err != nil {
		return err
	}
	accompanied := valuesOf(others)
	waypoints := map[podRef]float64{}
	if p.has[generate.MetricRequests] {
		_, end := p.over(generate.MetricRequests)
		found, err := p.source.Instant(ctx, "count by ("+podLabels+") ("+generate.MetricRequests+p.braces(`reporter="waypoint"`)+")", end)
		if err != nil {
			return err
		}
		waypoints = valuesOf(found)
	}
	var pods []podRef
	for c := range memory {
		pods = append(pods, c.podRef)
	}
	if len(pods) == 0 {
		pods = slices.Collect(maps.Keys(built))
	}
	if len(pods) == 0 {
		return nil
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
	if p.has[metricPodInfo] {
		_, end := p.over(metricPodInfo)
		nodes, err := p.source.Instant(ctx, "count(count by (node) ("+metricPodInfo+p.braces(`node!=""`)+"))", end)
		if err != nil {
			return err
		}
		if len(nodes) == 1 && finite(nodes[0].Value) {
			p.e.Nodes = int(nodes[0].Value)
		}
	}
	return p.resources(ctx)
}

// build is what an Istio program reports about itself.
type build struct{ component, tag string }

// versions returns what each scraped proxy, ztunnel and istiod reports about itself.
func (p *promRead) versions(ctx context.Context) (map[podRef]build, error) {
	out := map[podRef]build{}
	if !p.has[metricBuild] {
		return out, nil
	}
	_, end := p.over(metricBuild)
	samples, err := p.source.Instant(ctx, "count by ("+podLabels+", component, tag) ("+metricBuild+p.braces("")+")", end)
	for _, s := range samples {
		b := build{s.Labels["component"], strings.TrimRight(s.Labels["tag"], ";")} // as proxies of old versions write it
		if b.tag == "unknown" {
			b.tag = ""
		}
		if pod := podOf(s.Labels); pod.name != "" {
			out[pod] = b
		}
	}
	return out, err
}

// resources reads what containers request and are limited to, from kube-state-metrics.
func (p *promRead) resources(ctx context.Context) error {
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
		samples, err := p.source.Instant(ctx, "max by ("+podLabels+", resource, container) ("+q.metric+p.braces(matchProxies+`,resource=~"cpu|memory"`)+")", end)
		if err != nil {
			return err
		}
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
	if found == 0 {
		p.unknown(assess.NoResources.Of("kube_pod_container_resource_requests"))
	}
	return nil
}
