package app

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// clusterLabels are labels that external_labels, relabelling and agents add to all series of a cluster.
const clusterLabels = "cluster, cluster_name, cluster_id, clusterName, clusterID, k8s_cluster, k8s_cluster_name, kubernetes_cluster, kubernetes_cluster_name, kube_cluster, kube_cluster_name, eks_cluster, gke_cluster, aks_cluster"

// Labels that only tell clusters apart where istiods differ in them: nodes and workloads may have labels of such names
// too, but not the replicas of one istiod. Those of requests in trafficLabels are of the other side.
var (
	installLabel  = regexp.MustCompile(`(?i)cluster|^(env|environment|datacenter|dc|region|site|stage|tenant)$`)
	trafficLabels = []string{"source_cluster", "destination_cluster"}
)

// oneCluster reports whether the series are of one cluster. The kubelets' metrics and istiod's tell: a label that is
// added to all series of a cluster has several values in both, while those of workloads may have labels of their
// own pods, such as that of a database's cluster.
func (p *promRead) oneCluster(ctx context.Context) (bool, error) {
	values := map[string]map[string]bool{} // by label
	add := func(samples []signals.Sample, is func(label string) bool) {
		labels := map[string]bool{}
		for _, s := range samples {
			for name := range s.Labels {
				labels[name] = labels[name] || is(name)
			}
		}
		for name, is := range labels {
			if !is {
				continue
			}
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			for _, s := range samples {
				values[name][s.Labels[name]] = true
			}
		}
	}
	of := func(by, metric, matchers string) ([]signals.Sample, error) {
		if !p.has[metric] {
			return nil, nil
		}
		window, end := p.over(metric)
		return p.source.Instant(ctx, fmt.Sprintf("count by (%s) (last_over_time(%s%s[%s]))", by, metric, p.braces(matchers), promWindow(window)), end)
	}
	window, end := p.over(metricServices)
	istiods, err := p.source.Instant(ctx, fmt.Sprintf("last_over_time(%s%s[%s])", metricServices, p.braces(""), promWindow(window)), end)
	if err != nil {
		return false, err
	}
	add(istiods, func(label string) bool {
		return installLabel.MatchString(label) && !slices.Contains(trafficLabels, label)
	})
	by := clusterLabels
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(strings.Split(clusterLabels, ", "), name) && strings.Contains(strings.ToLower(name), "cluster") {
			by += ", " + name
		}
	}
	kubelets, err := of(by, metricCPU, `container=~"istio-proxy|discovery"`)
	if err != nil {
		return false, err
	}
	add(kubelets, func(string) bool { return true })
	if len(istiods)+len(kubelets) == 0 {
		requests, err := of(clusterLabels, generate.MetricRequests, "")
		if err != nil {
			return false, err
		}
		add(requests, func(string) bool { return true })
	}
	// A proxy that reports as the source is in the cluster that Istio itself calls the source's.
	own, err := of("source_cluster", generate.MetricRequests, `reporter="source",source_cluster!~"|unknown"`)
	if err != nil {
		return false, err
	}
	add(own, func(string) bool { return true })
	var names []string
	for _, label := range slices.Sorted(maps.Keys(values)) {
		if len(values[label]) > 1 {
			for _, value := range slices.Sorted(maps.Keys(values[label])) {
				names = append(names, fmt.Sprintf("%s=%q", label, value))
			}
		}
	}
	if len(names) == 0 {
		return true, nil
	}
	p.unknown(assess.SeveralClusters.Of(strings.Join(names[:min(len(names), maxListed)], ", ")))
	return false, nil
}
