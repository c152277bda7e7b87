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
func (p *promRead) oneCluster(ctx context.Context) bool {
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
	last := func(of, metric, matchers string) []signals.Sample {
		if !p.has[metric] {
			return nil
		}
		window, end := p.over(metric)
		return p.instant(ctx, end, of+"(last_over_time(%s[%s]))", metric+p.braces(matchers), promWindow(window))
	}
	istiods := last("", metricServices, "")
	add(istiods, func(label string) bool {
		return installLabel.MatchString(label) && !slices.Contains(trafficLabels, label)
	})
	by := clusterLabels
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(strings.Split(clusterLabels, ", "), name) && strings.Contains(strings.ToLower(name), "cluster") {
			by += ", " + name
		}
	}
	any := func(string) bool { return true }
	kubelets := last("count by ("+by+") ", metricCPU, `container=~"istio-proxy|discovery"`)
	add(kubelets, any)
	if len(istiods)+len(kubelets) == 0 {
		add(last("count by ("+clusterLabels+") ", generate.MetricRequests, ""), any)
	}
	// A proxy that reports as the source is in the cluster that Istio itself calls the source's.
	add(last("count by (source_cluster) ", generate.MetricRequests, `reporter="source",source_cluster!~"|unknown"`), any)
	if p.err != nil {
		return false
	}
	var names []string
	for _, label := range slices.Sorted(maps.Keys(values)) {
		if len(values[label]) > 1 {
			for _, value := range slices.Sorted(maps.Keys(values[label])) {
				names = append(names, fmt.Sprintf("%s=%q", label, value))
			}
		}
	}
	if len(names) > 0 {
		p.unknown(assess.SeveralClusters.Of(strings.Join(names[:min(len(names), maxListed)], ", ")))
	}
	return len(names) == 0
}
