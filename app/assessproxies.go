package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Bounds of reading proxies, of which some may hang.
const (
	// silence ends the reading of a proxy that sends nothing for that long.
	silence = 10 * time.Second
	// leastReading is how long all proxies together may take at least; a longer watch allows more.
	leastReading = 2 * time.Minute
)

var errSilent = errors.New("it fell silent")

// readingTime is how long reading all proxies may take.
func (r *meshRead) readingTime() time.Duration { return max(r.Duration, leastReading) }

// proxiesRead are the sums of what proxies hold. A proxy is reduced to what is needed as soon as it
// has been read: there may be thousands, of megabytes each.
type proxiesRead struct {
	obs   *generate.Observations
	held  *scope.Sum
	scale *generate.Scale
	facts gather.Holding
}

// detailed is of how many proxies a report has the largest owners and resources.
const detailed = 50

// newProxiesRead returns empty sums. owners limits the lists of owners; 0 means no limit.
func newProxiesRead(inv *generate.Inventory, owners int) proxiesRead {
	return proxiesRead{obs: generate.NewObservations(), held: scope.NewSum(owners, detailed), scale: generate.NewScale(inv)}
}

// take adds what a proxy holds, which started at a time; zero if unknown.
func (r *meshRead) take(p scope.Proxy, started time.Time) {
	r.inv.AddProxy(p)
	r.sums.scale.Add(p)
	r.sums.facts.Add(p, started, time.Now())
	if p.Calls != nil && p.Node != nil {
		w := generate.Workload{Namespace: p.Node.Namespace, Name: p.Node.Workload}
		if pod, found := strings.CutPrefix(p.Name, w.Namespace+"/"); found && r.inv.Has("Pod") {
			w = r.inv.WorkloadOf(w.Namespace, pod)
		}
		r.sums.obs.AddCounters(w, p.Calls)
	}
	r.sums.held.Add(p)
	r.scope = append(r.scope, scope.Proxy{Name: p.Name, Kind: p.Kind})
}

// readSidecars reads what some sidecars hold, and the counters of their clusters.
func (r *meshRead) readSidecars(ctx context.Context) error {
	filters, note := labFilters(ctx, r.from.kube)
	if note != "" {
		r.unknown(assess.NotRead.Of(note))
	}
	alone := r.Section == assess.SectionConfiguration
	selector, err := labels.Parse(r.PodSelector)
	if err != nil {
		return errs.Usage("--selector: %v", err)
	}
	all := slices.DeleteFunc(slices.Clone(r.pods), func(pod corev1.Pod) bool {
		p, _, _ := proxyOf(pod)
		return p.Kind == assess.Istiod || p.Kind != assess.Sidecar && !alone || !selector.Matches(labels.Set(pod.Labels))
	})
	pods := gather.Spread(all, cmp.Or(r.Most, len(all)))
	if len(pods) == 0 {
		none := errs.WithHint(errors.New("no running pod with a sidecar"), "to check: kubectl get pods --all-namespaces")
		if alone {
			return none
		}
		r.unknown(assess.NoConfig.Of(none))
		return nil
	}
	if alone && len(pods) < len(all) {
		r.unknown(assess.SomeProxies.Of(len(all)-len(pods), len(all)))
	}
	port := Istio().Proxies(record.PlaceSidecar).AdminPort
	o := scope.Options{Keep: gather.KeepListeners, Filters: filters}
	type answer struct {
		proxy scope.Proxy
		counted
	}
	ask := func(ctx context.Context, pod corev1.Pod) (a answer, err error) {
		client, hangUp := r.dial(pod.Namespace, pod.Name, port)
		defer hangUp()
		defer client.CloseIdleConnections()
		if err = getLively(ctx, client, silence, "/config_dump?include_eds", func(in io.Reader) error {
			a.proxy, err = scope.ReadDump(in, pod.Namespace+"/"+pod.Name, o)
			return err
		}); err != nil {
			return a, err
		}
		if a.proxy.Kind == scope.NodeZtunnel { // it has no clusters
			return a, nil
		}
		a.counted, err = askCounts(ctx, client)
		return a, err
	}
	r.Say("reading " + words.Plural(len(pods), "sidecar"))
	asked := 0
	var last error
	name := func(pod corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
	err = eachOf(ctx, r, r.readingTime(), pods, name, ask, func(pod corev1.Pod, a answer, failure error) {
		asked++
		r.Say(fmt.Sprintf("read %d of %s", asked, words.Plural(len(pods), "sidecar")))
		if a.proxy.Resources == 0 || a.proxy.Incomplete {
			last = failure
			return
		}
		if failure == nil && a.Calls != nil {
			a.proxy.SetCalls(a.Calls)
			r.first[a.proxy.Name] = kept(a.counted)
			r.mark(a.proxy.Name, a.at)
		}
		r.take(a.proxy, gather.ProxyStarted(pod))
	})
	switch {
	case err == nil && len(r.scope) == 0 && alone:
		return last
	case err == nil && len(r.scope) == 0:
		r.unknown(assess.NoConfig.Of(last))
	}
	r.counted = time.Now()
	return err
}

// askCounts asks a proxy for the counters of its clusters.
func askCounts(ctx context.Context, client *http.Client) (c counted, err error) {
	err = getLively(ctx, client, silence, "/clusters?format=json", func(in io.Reader) error {
		c.at = time.Now()
		c.Counts, err = scope.ReadCounts(in)
		return err
	})
	return c, err
}

// kept is what is kept of a proxy's counters: those that are not 0, with names that all proxies share.
func kept(c counted) counted {
	out := counted{at: c.at, Counts: scope.Counts{Calls: map[string]int64{}, Endpoints: map[string]map[string]scope.Count{}}}
	for cluster, n := range c.Calls {
		if n > 0 {
			out.Calls[unique.Make(cluster).Value()] = n
		}
	}
	for cluster, endpoints := range c.Endpoints {
		to := make(map[string]scope.Count, len(endpoints))
		for address, n := range endpoints {
			to[unique.Make(address).Value()] = n
		}
		out.Endpoints[unique.Make(cluster).Value()] = to
	}
	return out
}

// eachOf asks proxies, some at a time, and has each taken as it comes, one after the other. It lists those that
// failed, and counts those that were not asked or did not answer by the end of the time for all of them.
func eachOf[P, A any](ctx context.Context, r *meshRead, limit time.Duration, proxies []P, name func(P) string,
	ask func(context.Context, P) (A, error), take func(P, A, error)) error {
	asking, end := context.WithTimeout(ctx, limit)
	defer end()
	var group errgroup.Group
	group.SetLimit(proxiesAtATime)
	var mu sync.Mutex
	late, failed := 0, []string{}
	for _, p := range proxies {
		group.Go(func() error {
			var answer A
			err := asking.Err()
			if err == nil {
				answer, err = ask(asking, p)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && asking.Err() != nil:
				late++
			case err != nil:
				failed = append(failed, fmt.Sprintf("proxy of pod %s: %v", name(p), err))
			}
			take(p, answer, err)
			return nil
		})
	}
	_ = group.Wait() // it has no errors
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	slices.Sort(failed)
	r.notRead(failed)
	if late > 0 {
		r.unknown(assess.ProxiesLate.Of(late, len(proxies), limit.Seconds()))
	}
	return nil
}

// getLively streams an answer as [GetAdmin] does, and gives up a proxy that sends nothing for some time.
func getLively(ctx context.Context, client *http.Client, silence time.Duration, path string, f func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	timer := time.AfterFunc(silence, func() { giveUp(errSilent) })
	defer timer.Stop()
	err := GetAdmin(ctx, client, path, func(in io.Reader) error { return f(lively{in, timer, silence}) })
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return fmt.Errorf("%s: %w for %v", path, errSilent, silence)
	}
	return err
}

// lively starts a timer again with each piece that it reads.
type lively struct {
	io.Reader
	timer   *time.Timer
	silence time.Duration
}

func (l lively) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if n > 0 {
		l.timer.Reset(l.silence)
	}
	return n, err
}
