package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// istiod judges istiod by its metrics, if it was not read itself.
func (p *promRead) istiod(ctx context.Context) {
	if p.e.Limits != nil {
		return
	}
	if !p.has[metricServices] {
		p.istiodVersion(ctx, "")
		return
	}
	window, end := p.over(metricServices)
	ofPods, pods := p.oneRevision(ctx)
	selector, whole := p.oneJob(ctx, metricServices, ofPods)
	if p.err != nil || !whole {
		return
	}
	selector = strings.Trim(selector+","+ofPods, ",")
	o := signals.Options{Window: max(window, time.Second), Selector: strings.Trim(selector+","+p.selector, ",")}
	// Kubelets may be scraped more often than istiod.
	o.Pod = fmt.Sprintf("pod=~%q", cmp.Or(pods, "istiod.*"))
	of := `container="discovery"`
	if pods != "" {
		of += "," + o.Pod
	}
	switch kubelets, whole := p.oneJob(ctx, metricCPU, of); {
	case !whole:
		o.Pod = `pod=""`
	case kubelets != "":
		o.Pod += "," + kubelets
	}
	o.Container = `container="discovery",` + o.Pod
	for _, process := range []string{`app="istiod"`, `job="istiod"`, `pod=~"istiod-.*"`, `kubernetes_pod_name=~"istiod-.*"`} {
		joined := process
		if o.Selector != "" {
			joined += "," + o.Selector
		}
		found := p.instant(ctx, end, "count(process_start_time_seconds{%s})", joined)
		if len(found) == 1 && found[0].Value > 0 {
			o.Process = process
			break
		}
	}
	if p.err != nil {
		return
	}
	if window < time.Second {
		p.unknown(assess.OnePage.Of())
	}
	e := &advice.Evidence{Source: p.source.String(), WindowS: window.Seconds()}
	if p.err = p.judge(ctx, p.source, o, end, e); p.err != nil {
		return
	}
	if p.istiodVersion(ctx, ofPods); p.e.Istiod != "" {
		return
	}
	if infos := p.instant(ctx, end, "pilot_info%s", p.braces("")); len(infos) > 0 {
		p.e.Istiod = pilotVersion(infos[0].Labels["version"])
	}
}

// istiodVersion reads the version of the istiods that matchers select.
func (p *promRead) istiodVersion(ctx context.Context, matchers string) {
	var tags []string
	for _, s := range p.count(ctx, metricBuild, strings.Trim(`component="pilot",tag!="unknown",`+matchers, ","), "tag") {
		tags = append(tags, s.Labels["tag"])
	}
	if slices.Sort(tags); len(tags) > 0 {
		p.e.Istiod = cmp.Or(p.e.Istiod, tags[0])
	}
	if len(tags) > 1 {
		p.unknown(assess.SeveralIstiods.Of(strings.Join(tags, ", ")))
	}
}

// oneRevision returns matchers and a pattern of the pods of one revision's istiods, "" where there is one revision: of
// that which is named, or else of that with most replicas. Lists of pods tell revisions, or else labels, or else names.
func (p *promRead) oneRevision(ctx context.Context) (matchers, pattern string) {
	listed := map[podRef]string{}
	for _, x := range p.proxies {
		if x.Kind == assess.Istiod {
			listed[podRef{x.Namespace, x.Pod}] = x.Revision
		}
	}
	pods, label := map[string][]string{}, ""
	for _, s := range p.count(ctx, metricServices, "", podLabels+", istio_io_rev") {
		pod := podOf(s.Labels)
		if pod.name == "" {
			return "", ""
		}
		for _, name := range []string{"exported_pod", "pod", "kubernetes_pod_name"} {
			if s.Labels[name] == pod.name {
				label = name
			}
		}
		revision := cmp.Or(listed[pod], s.Labels["istio_io_rev"])
		if revision == "" {
			revision = p.inv.WorkloadOf(pod.namespace, pod.name).Name
		}
		if !slices.Contains(pods[revision], pod.name) {
			pods[revision] = append(pods[revision], pod.name)
		}
	}
	names := slices.Sorted(maps.Keys(pods))
	if len(names) < 2 {
		return "", ""
	}
	chosen := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(len(pods[a]), len(pods[b])) })
	if pods[p.Revision] != nil {
		chosen = p.Revision
	}
	p.once(assess.OtherRevisions.Of(strings.Join(names, ", "), chosen))
	slices.Sort(pods[chosen])
	for _, pod := range pods[chosen] { // a name may have dots
		pattern += "|" + regexp.QuoteMeta(pod)
	}
	pattern = strings.TrimPrefix(pattern, "|")
	return fmt.Sprintf("%s=~%q", label, pattern), pattern
}

// oneJob returns matchers of one scrape of each pod's metric: of one job and one replica of Prometheus, where
// several have the same pods. It is not whole where none has all.
func (p *promRead) oneJob(ctx context.Context, metric, matchers string) (selector string, whole bool) {
	jobs, pods, scrapes := map[string]map[podRef]int{}, map[podRef]bool{}, 0
	for _, s := range p.count(ctx, metric, matchers, podLabels+", "+targetLabels) {
		pod := podOf(s.Labels)
		if pod.name == "" {
			pod.name = s.Labels["instance"]
		}
		var of []string
		for _, label := range []string{"job", "prometheus", "prometheus_replica", "replica"} {
			if v := s.Labels[label]; v != "" {
				of = append(of, fmt.Sprintf("%s=%q", label, v))
			}
		}
		job := strings.Join(of, ",")
		if jobs[job] == nil {
			jobs[job] = map[podRef]int{}
		}
		jobs[job][pod]++
		pods[pod] = true
		scrapes++
	}
	if scrapes == len(pods) {
		return "", true
	}
	names := slices.Sorted(maps.Keys(jobs))
	for _, job := range names {
		once := len(jobs[job]) == len(pods)
		for _, n := range jobs[job] {
			once = once && n == 1
		}
		if once {
			return job, true
		}
	}
	if metric == metricServices {
		p.unknown(assess.IstiodTwice.Of(strings.Join(names[:min(len(names), maxListed)], "; "), len(pods)))
	}
	return "", false
}
