package app

import (
	"context"
	"fmt"
	"maps"
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
	if p.e.Limits != nil || !p.has[metricServices] {
		return nil
	}
	window, end := p.over(metricServices)
	selector, whole, err := p.oneJob(ctx, metricServices, "", end)
	if err != nil || !whole {
		return err
	}
	o := signals.Options{Window: max(window, time.Second), Selector: strings.Trim(selector+","+p.selector, ",")}
	// Kubelets may be scraped more often than istiod.
	kubelets, whole, err := p.oneJob(ctx, metricCPU, `container="discovery"`, end)
	switch {
	case err != nil:
		return err
	case !whole:
		o.Container, o.Pod = `container="discovery",pod=""`, `pod=""`
	case kubelets != "":
		o.Container, o.Pod = `container="discovery",pod=~"istiod.*",`+kubelets, `pod=~"istiod.*",`+kubelets
	}
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
	if _, err := p.versions(ctx); err != nil || p.e.Istiod != "" {
		return err
	}
	infos, err := p.source.Instant(ctx, "pilot_info"+p.braces(""), end)
	if len(infos) > 0 {
		p.e.Istiod = pilotVersion(infos[0].Labels["version"])
	}
	return err
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
