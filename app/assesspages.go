package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile"
)

// dump reads what a proxy holds. A proxy counts once, however many files have it.
func (r *filesRead) dump(in io.Reader, of input) error {
	if r.sums.held.Len() >= mostDumps {
		return fmt.Errorf("more than %d config dumps", mostDumps)
	}
	r.flush()
	p, err := scope.Read(in, of.name, scope.Options{Keep: gather.KeepListeners, Filters: r.filters})
	if err != nil {
		return err
	}
	pod := of.pod
	if n := p.Node; n != nil && n.Pod != "" {
		pod = n.Namespace + "/" + n.Pod
	}
	if r.Section != assess.SectionConfiguration { // which sets files side by side
		p.Name = cmp.Or(pod, p.Name)
		if r.dumped[p.Name] {
			return nil
		}
		r.dumped[p.Name] = true
	}
	if all := r.counts[cmp.Or(pod, r.podOf(of))]; len(all) > 0 {
		calls := map[string]int64{}
		for _, c := range p.Clusters { // a page of counters has all clusters, of which those that are not 0 were kept
			calls[c.Name] = 0
		}
		maps.Copy(calls, all[len(all)-1].Calls)
		p.SetCalls(calls)
	}
	r.pending = &p
	return nil
}

// flush takes the proxy that was read last, whose counters may have followed.
func (r *filesRead) flush() {
	if p := r.pending; p != nil {
		r.pending = nil
		r.take(*p, r.started[p.Name])
	}
}

// podOf is the pod that a file is of, or the name of the file.
func (r *filesRead) podOf(of input) string { return cmp.Or(of.pod, podIn(of.name, r.listed), of.name) }

// clusters reads what a proxy counted of its clusters.
func (r *filesRead) clusters(in io.Reader, of input, form assess.Content) (err error) {
	if r.readings++; r.readings > mostDumps {
		return fmt.Errorf("more than %d readings of counters", mostDumps)
	}
	read := scope.ReadCounts
	if form == assess.ContentClustersText {
		read = scope.ReadClusters
	}
	c := counted{at: of.at}
	if c.Counts, err = read(in); err != nil {
		return err
	}
	pod := r.podOf(of)
	r.counts[pod] = append(r.counts[pod], kept(c))
	if p := r.pending; p != nil && p.Calls == nil && (pod == p.Name || pod == of.name) {
		p.SetCalls(c.Calls) // of the dump before it
	}
	if r.Section == assess.SectionConfiguration && r.pending == nil && pod == of.name {
		return errors.New("counters of a proxy without its config dump before them")
	}
	return nil
}

// serverInfo reads since when a proxy runs, and with how many worker threads, of a bug report.
func (r *filesRead) serverInfo(in io.Reader, of input) error {
	var info struct {
		Uptime  string `json:"uptime_current_epoch"`
		Options struct {
			Threads int `json:"concurrency"`
		} `json:"command_line_options"`
	}
	if err := json.NewDecoder(io.LimitReader(in, maxServerInfo)).Decode(&info); err != nil {
		return err
	}
	uptime, err := time.ParseDuration(info.Uptime)
	if err != nil || uptime < 0 || uptime > mostAge*time.Second || len(r.starts[of.pod]) == mostStarts {
		return errors.New("no uptime_current_epoch")
	}
	r.starts[of.pod] = append(r.starts[of.pod], of.at.Add(-uptime))
	r.threads[of.pod] = info.Options.Threads
	return nil
}

// sync reads which proxies have acknowledged what an istiod sent them, of a bug report. One that istiod sends nothing
// of a type has neither.
func (r *filesRead) sync(in io.Reader) error {
	stream := json.NewDecoder(io.LimitReader(in, maxSync))
	if start, err := stream.Token(); err != nil || start != json.Delim('[') {
		return errors.New("no list of proxies")
	}
	for stream.More() {
		var raw json.RawMessage
		if err := stream.Decode(&raw); err != nil {
			return err
		}
		if len(raw) > mostSyncBytes || len(r.synced) == mostSynced {
			return fmt.Errorf("more than %d proxies, or one of more than %d bytes", mostSynced, mostSyncBytes)
		}
		var p map[string]any
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		name, _ := p["proxy"].(string)
		if name == "" || r.synced[name] {
			continue
		}
		r.synced[name] = true
		if r.e.Sync == nil {
			r.e.Sync = &assess.Sync{}
		}
		r.e.Sync.Proxies++
		for key := range p {
			of, is := strings.CutSuffix(key, "_sent")
			sent, _ := p[key].(string)
			if acked, _ := p[of+"_acked"].(string); is && sent != "" && acked != sent {
				if r.e.Sync.Behind++; r.e.Sync.Example == "" {
					r.e.Sync.Example = printable(name)
				}
				break
			}
		}
	}
	return nil
}

// Limits of lists of proxies: bytes of a list and of a proxy in it, and proxies of all lists.
const (
	maxSync       = 128 << 20
	mostSyncBytes = 64 << 10
	mostSynced    = 100_000
)

// Limits of answers to /server_info, in bytes, and of how many of one proxy are kept; and how far its starts may be
// apart by them, since an answer is older than its file.
const (
	maxServerInfo = 1 << 20
	mostStarts    = 100
	startsApart   = 30 * time.Second
)

// countedTwice compares the first and the last reading of each proxy's counters.
func (r *filesRead) countedTwice() {
	by := map[string][]counted{} // files may name pods that were listed later
	for _, name := range slices.Sorted(maps.Keys(r.counts)) {
		pod := name
		if !r.listed[pod] {
			pod = cmp.Or(podIn(name, r.listed), name)
		}
		by[pod] = append(by[pod], r.counts[name]...)
	}
	once, nameless := 0, 0
	for _, pod := range slices.Sorted(maps.Keys(by)) {
		all := by[pod]
		if !r.listed[pod] {
			nameless++
			continue
		}
		timed := !slices.ContainsFunc(all, func(c counted) bool { return c.at.IsZero() })
		if !timed {
			for i := range all {
				all[i].at = time.Time{}.Add(time.Duration(i) * r.Apart)
			}
		}
		slices.SortStableFunc(all, func(a, b counted) int { return a.at.Compare(b.at) })
		first, last := all[0], all[len(all)-1]
		starts := r.starts[pod]
		switch {
		case !last.at.After(first.at):
			once++
		case timed && len(starts) > 1 && slices.MaxFunc(starts, time.Time.Compare).Sub(slices.MinFunc(starts, time.Time.Compare)) > startsApart:
			r.fell = append(r.fell, pod) // it restarted
		default:
			r.compare(pod, first, last)
		}
	}
	r.some(assess.CountersNameless, nameless)
	r.some(assess.CountedOnce, once)
}

// metered is what a proxy's metrics page counts.
type metered struct {
	at      time.Time
	uptime  float64 // seconds that the proxy has run; 0 if unknown
	entries map[assess.AccessEntry]float64
	bodies  bodies
}

// meter reads the requests that a proxy counts by Istio's own metrics. ok is false for the page of another program.
func meter(metrics []observe.Metric, at time.Time) (m metered, ok bool) {
	m = metered{at: at, entries: map[assess.AccessEntry]float64{}, bodies: bodiesOf(metrics)}
	for _, s := range metrics {
		var e assess.AccessEntry
		switch s.Name {
		case "envoy_server_uptime":
			m.uptime, ok = s.Value, true
			continue
		case generate.MetricRequests:
		case generate.MetricConnections:
			e.TCP = true
		default:
			continue
		}
		ok = true
		if s.Labels["reporter"] == "source" {
			e.Host = cmp.Or(s.Labels["destination_service"], "unknown")
		}
		if s.Value >= 0 { // not NaN
			m.entries[e] += s.Value
		}
	}
	return m, ok
}

// since are rates from an earlier page. ok is false if a counter fell, or if the proxy started in between.
func (m metered) since(had metered, seconds float64) (rates map[assess.AccessEntry]float64, ok bool) {
	rates = map[assess.AccessEntry]float64{}
	for e, n := range had.entries {
		if m.entries[e] < n {
			return nil, false
		}
	}
	for e, n := range m.entries {
		if rose := n - had.entries[e]; rose > 0 {
			rates[e] = rose / seconds
		}
	}
	return rates, true
}

// meteredTwice compares the first and the last metrics page of each proxy whose counters do not tell.
func (r *filesRead) meteredTwice() {
	once, nameless, at := 0, 0, r.proxyOf()
	for _, name := range slices.Sorted(maps.Keys(r.pages)) {
		pod, all := name, r.pages[name]
		if !r.listed[pod] {
			pod = podIn(name, r.listed)
		}
		i, known := at[pod]
		switch {
		case !known:
			nameless++
			continue
		case r.rates[pod] != nil || r.meteredS[pod] > 0:
			r.bodies = r.bodies.plus(all[len(all)-1].bodies)
			continue
		}
		slices.SortStableFunc(all, func(a, b metered) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.uptime, b.uptime)) })
		first, last := all[0], all[len(all)-1]
		r.bodies = r.bodies.plus(last.bodies)
		seconds := last.uptime - first.uptime
		if apart := last.at.Sub(first.at).Seconds(); apart > 0 && (seconds <= 0 || apart-seconds > startsApart.Seconds()) {
			r.fell = append(r.fell, pod) // it restarted
			continue
		}
		if seconds <= 0 {
			if len(r.counts[name]) == 0 { // or it is counted there
				once++
			}
			continue
		}
		rates, whole := last.since(first, seconds)
		if !whole {
			r.fell = append(r.fell, pod)
			continue
		}
		r.meteredS[pod] = seconds
		r.addLogged(&r.proxies[i], rates)
		for e, perS := range rates {
			if e.Host != "" {
				call := r.callOf(pod, e)
				call.PerS = perS
				r.e.Calls = append(r.e.Calls, call)
			}
		}
	}
	r.e.Sizes = r.bodies.sizes()
	r.some(assess.CountersNameless, nameless)
	r.some(assess.CountedOnce, once)
}

// proxyOf returns the index of each pod's proxy.
func (r *filesRead) proxyOf() map[string]int {
	at := map[string]int{}
	for i, p := range r.proxies {
		at[p.Namespace+"/"+p.Pod] = i
	}
	return at
}

// logged adds what access logs say of the requests of proxies whose counters do not tell.
func (r *filesRead) logged() {
	r.e.AccessLogs = r.accessLogs.Logged()
	at := r.proxyOf()
	calls := map[assess.Call]float64{}
	seconds, writers, brief, filtered, nameless := 0.0, 0, 0, 0, 0
	for _, w := range r.accessLogs.Writers() {
		pod := r.writerOf(w)
		switch rates := w.Rates(); {
		case w.Filtered():
			filtered++
		case w.Brief():
			brief++
		case pod == "" && !w.Ztunnel:
			nameless++
		default:
			if i, known := at[pod]; known && !w.Ztunnel {
				if r.rates[pod] != nil || r.meteredS[pod] > 0 {
					continue // its counters are surer
				}
				r.addLogged(&r.proxies[i], rates)
				r.proxies[i].RequestsBy = assess.ByLogs
			}
			seconds += w.Seconds()
			writers++
			for e, perS := range rates {
				if e.Host == "" {
					continue
				}
				calls[r.callOf(cmp.Or(e.Caller, pod), e)] += perS
			}
		}
	}
	for c, perS := range calls {
		c.PerS = perS
		r.e.Calls = append(r.e.Calls, c)
	}
	r.sortCalls()
	for _, s := range r.meteredS {
		seconds += s
	}
	if n := len(r.meteredS) + writers; n > 0 {
		r.e.TrafficS = (r.comparedS + seconds) / float64(len(r.rates)+n)
	}
	r.some(assess.LogsBrief, brief)
	r.some(assess.LogsFiltered, filtered)
	r.some(assess.LogsNameless, nameless)
	r.some(assess.LogsLong, int(r.accessLogs.TooLong))
}

// writerOf is the pod whose proxy wrote a log: as its place says, its lines, or the name of its file.
func (r *filesRead) writerOf(w *assess.Writer) string {
	if strings.Contains(w.Pod, "/") {
		return w.Pod
	}
	return cmp.Or(r.addresses[w.Address], podIn(cmp.Or(w.Pod, w.Name), r.listed))
}

// addLogged gives a proxy the rates of its log.
func (r *filesRead) addLogged(p *assess.Proxy, rates map[assess.AccessEntry]float64) {
	p.Called, p.Served, p.Connections = new(float64), new(float64), new(float64)
	for e, perS := range rates {
		switch {
		case e.TCP:
			*p.Connections += perS
		case e.Host == "":
			*p.Served += perS
		default:
			*p.Called += perS
		}
	}
}

// callOf is the call that lines of a log count, without its rate.
func (r *filesRead) callOf(pod string, e assess.AccessEntry) assess.Call {
	namespace, name, _ := strings.Cut(pod, "/")
	port, _ := strconv.Atoi(e.Port)
	_, routed := r.inv.Calls(e.Host, port)
	w := r.inv.WorkloadOf(namespace, name)
	return assess.Call{From: generate.Workload{Namespace: w.Namespace, Name: w.Name}, Host: e.Host, TCP: e.TCP, Routed: routed && !e.TCP}
}

// mostProfiles limits the profiles that are kept.
const mostProfiles = 20

// profile reads what istiod spends CPU or memory on.
func (r *filesRead) profile(in io.Reader, name string) error {
	p, err := profile.ReadPprof(in)
	if err != nil {
		return err
	}
	istiod := slices.ContainsFunc(p.Binaries, func(b profile.Binary) bool { return strings.HasSuffix(b.Path, "pilot-discovery") })
	for _, f := range p.TopCumulative(200) {
		istiod = istiod || strings.HasPrefix(f.Function, "istio.io/istio/pilot/pkg/")
	}
	switch {
	case !istiod:
		return errors.New("a profile, but not istiod's")
	case p.Kind != profile.KindCPU && p.Kind != profile.KindHeap:
		return fmt.Errorf("a profile of kind %s: CPU and heap profiles are read", p.Kind)
	case len(r.e.Profiles) == mostProfiles:
		return fmt.Errorf("more than %d profiles", mostProfiles)
	}
	r.e.Profiles = append(r.e.Profiles, assess.Profiled{Name: name, Kind: p.Kind, Costs: profile.Cost([]*profile.Profile{p}, nil), TooFew: profile.TooFew(p.Kind, p.Taken())})
	return nil
}
