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
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// istiod judges istiod by its metrics, if it was not read itself.
func (p *promRead) istiod(ctx context.Context) error {
	if p.e.Limits != nil {
		return nil
	}
	if !p.has[metricServices] {
		return p.istiodVersion(ctx, "")
	}
	window, end := p.over(metricServices)
	ofPods, pods, err := p.oneRevision(ctx, end)
	if err != nil {
		return err
	}
	selector, whole, err := p.oneJob(ctx, metricServices, ofPods, end)
	if err != nil || !whole {
		return err
	}
	selector = strings.Trim(selector+","+ofPods, ",")
	o := signals.Options{Window: max(window, time.Second), Selector: strings.Trim(selector+","+p.selector, ",")}
	// Kubelets may be scraped more often than istiod.
	o.Pod = fmt.Sprintf("pod=~%q", cmp.Or(pods, "istiod.*"))
	of := `container="discovery"`
	if pods != "" {
		of += "," + o.Pod
	}
	kubelets, whole, err := p.oneJob(ctx, metricCPU, of, end)
	switch {
	case err != nil:
		return err
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
		found, err := p.source.Instant(ctx, "count(process_start_time_seconds{"+joined+"})", end)
		if err != nil {
			return err
		}
		if len(found) == 1 && found[0].Value > 0 {
			o.Process = process
			break
		}
	}
	if window < time.Second {
		p.unknown(assess.OnePage.Of())
	}
	e := &advice.Evidence{Source: p.source.String(), WindowS: window.Seconds(), Facts: map[*advice.Quantity]float64{}}
	if e.Metrics, err = gather.Metrics(ctx, p.source, o, end); err != nil {
		return err
	}
	p.sums.facts.Facts(e.Facts)
	reading, err := signals.Read(ctx, p.source, o, end)
	if err != nil {
		return err
	}
	judged := advice.Judge(e)
	p.e.Limits, p.e.Signals = &judged, &reading
	if err := p.istiodVersion(ctx, ofPods); err != nil || p.e.Istiod != "" {
		return err
	}
	infos, err := p.source.Instant(ctx, "pilot_info"+p.braces(""), end)
	if len(infos) > 0 {
		p.e.Istiod = pilotVersion(infos[0].Labels["version"])
	}
	return err
}

// istiodVersion reads the version of the istiods that matchers select.
func (p *promRead) istiodVersion(ctx context.Context, matchers string) error {
	if !p.has[metricBuild] {
		return nil
	}
	_, end := p.over(metricBuild)
	samples, err := p.source.Instant(ctx, "count by (tag) ("+metricBuild+p.braces(strings.Trim(`component="pilot",tag!="unknown",`+matchers, ","))+")", end)
	var tags []string
	for _, s := range samples {
		tags = append(tags, s.Labels["tag"])
	}
	if slices.Sort(tags); len(tags) > 0 {
		p.e.Istiod = cmp.Or(p.e.Istiod, tags[0])
	}
	if len(tags) > 1 {
		p.unknown(assess.SeveralIstiods.Of(strings.Join(tags, ", ")))
	}
	return err
}

// oneRevision returns matchers and a pattern of the pods of one revision's istiods, "" where there is one revision: of
// that which is named, or else of that with most replicas. Lists of pods tell revisions, or else labels, or else names.
func (p *promRead) oneRevision(ctx context.Context, end time.Time) (matchers, pattern string, err error) {
	samples, err := p.source.Instant(ctx, "count by ("+podLabels+", istio_io_rev) ("+metricServices+p.braces("")+")", end)
	if err != nil {
		return "", "", err
	}
	listed := map[podRef]string{}
	for _, x := range p.proxies {
		if x.Kind == assess.Istiod {
			listed[podRef{x.Namespace, x.Pod}] = x.Revision
		}
	}
	pods, label := map[string][]string{}, ""
	for _, s := range samples {
		pod := podOf(s.Labels)
		if pod.name == "" {
			return "", "", nil
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
		return "", "", nil
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
	return fmt.Sprintf("%s=~%q", label, pattern), pattern, nil
}

// oneJob returns matchers of one scrape of each pod's metric: of one job and one replica of Prometheus, where
// several have the same pods. It is not whole where none has all.
func (p *promRead) oneJob(ctx context.Context, metric, matchers string, end time.Time) (selector string, whole bool, err error) {
	samples, err := p.source.Instant(ctx, "count by ("+podLabels+", "+targetLabels+") ("+metric+p.braces(matchers)+")", end)
	if err != nil {
		return "", false, err
	}
	jobs, pods, scrapes := map[string]map[podRef]int{}, map[podRef]bool{}, 0
	for _, s := range samples {
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
		return "", true, nil
	}
	names := slices.Sorted(maps.Keys(jobs))
	for _, job := range names {
		once := len(jobs[job]) == len(pods)
		for _, n := range jobs[job] {
			once = once && n == 1
		}
		if once {
			return job, true, nil
		}
	}
	if metric == metricServices {
		p.unknown(assess.IstiodTwice.Of(strings.Join(names[:min(len(names), maxListed)], "; "), len(pods)))
	}
	return "", false, nil
}
