package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unique"

	autoscaling "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/kubelet"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Assessment says which mesh is assessed, and how.
type Assessment struct {
	Istiod
	IstiodWatch
	// Section is the one that is wanted: traffic, limits or configuration. What only others need is
	// not read. "": all sections.
	Section string
	// PodNamespace and PodSelector say whose proxies are read; "" for all.
	PodNamespace, PodSelector string
	Most                      int // proxies that are read; 0: all
	Owners                    int // of configuration that are listed; 0: all
	// Calls are sources of who calls whom, beside the proxies' counters.
	Calls CallSources
	// Scopes says how Sidecars are generated; nil: the defaults.
	Scopes *generate.Options
	Model  *model.Model // of istiod's capacity; nil for what ships
	Runs   []string     // directories of runs with unit costs, or files of these; nil for what ships
	Prices assess.Prices
	// Apart is the time between two metrics pages of one istiod, in the order of the files, where the
	// pages do not tell; 0: unknown.
	Apart time.Duration
	// Prometheus is asked for what is unknown otherwise, and compared with the rest; for the section
	// configuration alone, who calls whom. nil: none. Its series must have Matchers, as in PromQL.
	Prometheus *signals.Remote
	Matchers   string
	// PrometheusAt is the end of the time over which Prometheus is asked; zero: now. A running mesh is not read then.
	PrometheusAt time.Time
	Warn         func(text string)
}

// Made is what an assessment made of a mesh's configuration.
type Made struct {
	Inventory *generate.Inventory
	Sidecars  *generate.Result // that would suit the mesh; nil where none could be made
}

// Assess reads a running mesh, without a write, and says what it costs, what limits it and what is
// unknown.
func (o Assessment) Assess(ctx context.Context) (a assess.Assessment, made Made, err error) {
	runs, err := o.unitCosts(ctx) // before minutes of reading
	if err != nil {
		return a, made, err
	}
	feature := rights.Assess
	if o.Section == assess.SectionConfiguration {
		feature = rights.AssessConfig
	}
	var e assess.Evidence
	var inv *generate.Inventory
	var from *Istiods
	if err = errPast; o.PrometheusAt.IsZero() {
		from, err = o.Istiod.Open(ctx, o.PodNamespace, feature)
	}
	switch {
	case err == nil:
		defer from.Close()
		e, inv, err = o.read(ctx, from, DialEach(from.config))
	case o.Prometheus != nil && o.Section == "" && ctx.Err() == nil:
		e, inv, err = o.fromPrometheus(ctx, err)
	}
	if err != nil {
		return a, made, err
	}
	a, err = o.concluded(ctx, e, runs)
	return a, Made{inv, e.Sidecars}, err
}

// errPast is why a mesh is not read when Prometheus is asked about an earlier time.
var errPast = errors.New("the mesh itself is read only as it is now, and --prometheus-time asks for an earlier time")

// meshRead is what reads a running mesh.
type meshRead struct {
	Assessment
	from *Istiods
	dial Dial
	e    assess.Evidence

	pods       []corev1.Pod // with a proxy, and of istiod
	proxies    []assess.Proxy
	containers []kubelet.Container // by proxy
	inv        *generate.Inventory
	scope      []scope.Proxy // that were read, with their names alone
	sums       proxiesRead
	first      map[string]counted // by pod
	counted    time.Time          // when all had been counted first
	rates      map[string]map[string]rate
	callNotes  []string                       // of sources of who calls whom
	mark       func(pod string, at time.Time) // when a pod's requests were first counted
	comparedS  float64                        // seconds between the readings that were compared, of all
	fell       []string                       // pods whose counters fell
	strange    int                            // sidecars that passed what belongs to no Service
	bodies     bodies                         // of requests and answers
	mu         sync.Mutex                     // of e.Unknown
}

// newMeshRead returns what is filled with what is read of a mesh. from and dial are nil where nothing is read of the
// cluster itself.
func newMeshRead(o Assessment, source string, from *Istiods, dial Dial) *meshRead {
	inv := generate.NewInventory()
	inv.Domain = cmp.Or(o.Calls.Domain, inv.Domain)
	return &meshRead{Assessment: o, from: from, dial: dial, inv: inv, sums: newProxiesRead(inv, o.Owners), first: map[string]counted{}, rates: map[string]map[string]rate{},
		mark: func(string, time.Time) {}, e: assess.Evidence{Source: source, At: time.Now(), Offline: from == nil}}
}

// counted are counters of a proxy's clusters at a moment.
type counted struct {
	at time.Time
	scope.Counts
	bodies bodies
}

// rate is how fast a cluster's counters rose, a second.
type rate struct {
	perS   float64
	parsed bool  // of a protocol whose requests the proxy parses
	open   int64 // connections
}

func (r *meshRead) unknown(u assess.Unknown) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.e.Unknown = append(r.e.Unknown, u)
}

// maxListed limits how many unknowns of one kind are listed: there may be thousands.
const maxListed = 10

// notRead lists what could not be read.
func (r *meshRead) notRead(what []string) {
	for _, n := range what[:min(len(what), maxListed)] {
		r.unknown(assess.NotRead.Of(n))
	}
	r.some(assess.MoreNotRead, len(what)-maxListed)
}

// some says of how many something is unknown, if of any.
func (r *meshRead) some(gap assess.Gap, n int) {
	if n > 0 {
		r.unknown(gap.Of(n))
	}
}

// read watches the mesh for the time of the watch, and reads what is in it meanwhile.
func (o Assessment) read(ctx context.Context, from *Istiods, dial Dial) (assess.Evidence, *generate.Inventory, error) {
	r := newMeshRead(o, o.source(), from, dial)
	if err := r.listProxies(ctx); err != nil {
		if o.Prometheus == nil || o.Section != "" || ctx.Err() != nil {
			return r.e, nil, err
		}
		r.unknown(assess.NotRead.Of(err))
	}
	if o.Section == assess.SectionConfiguration { // of several revisions the user names one
		if err := r.readConfiguration(ctx); err != nil {
			return r.e, nil, err
		}
		return r.e, r.inv, r.configured(ctx)
	}
	r.chooseRevision()
	err := r.watch(ctx)
	return r.e, r.inv, err
}

// watch watches istiod and the proxies, and reads the mesh's configuration meanwhile.
func (r *meshRead) watch(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	var seen IstiodSeen
	var istiodErr error
	began := time.Now()
	usage := newUsages(r)
	r.mark = usage.mark
	if r.Section == "" {
		wait.Go(func() { usage.watch(watching) })
	}
	wait.Go(func() {
		defer stop()
		if seen, istiodErr = r.from.Watch(ctx, r.IstiodWatch); istiodErr != nil { // then the rest is watched alone
			istiodErr = errors.Join(istiodErr, wake.Pause(ctx, r.Duration-time.Since(began)))
		}
	})
	wait.Go(func() {
		if err := r.readConfiguration(ctx); err != nil {
			fail(err) // nobody waits for the watch to end
		}
	})
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.Section != assess.SectionLimits {
		// Reading configuration may take longer than the watch: rates are over half of it at least.
		if err := wake.Pause(ctx, r.Duration/2-time.Since(r.counted)); err != nil {
			return err
		}
		if err := r.countAgain(ctx); err != nil {
			return err
		}
	}
	r.e.WindowS = time.Since(began).Seconds()
	switch {
	case istiodErr != nil && r.Section == assess.SectionLimits:
		return istiodErr
	case istiodErr == nil:
		if err := r.advised(ctx, seen); err != nil {
			return err
		}
	}
	if r.Section == "" {
		usage.look(ctx)
		usage.tell(r)
	}
	r.traffic()
	if err := r.askPrometheus(ctx); err != nil {
		return err
	}
	if r.Section == "" {
		usage.silent(r)
	}
	switch {
	case istiodErr != nil && r.e.Limits != nil:
		r.unknown(assess.NotReached.Of(istiodErr))
	case istiodErr != nil:
		r.unknown(assess.NotWatched.Of(istiodErr))
	}
	r.e.Proxies = r.proxies
	if r.Section != "" {
		return nil
	}
	r.hosts()
	return r.configured(ctx)
}

// chooseRevision reads istiod and the mesh's configuration of one revision, where several are installed and none
// is named: of that with most replicas.
func (r *meshRead) chooseRevision() {
	replicas := map[string]int{}
	for _, p := range r.proxies {
		if p.Kind == assess.Istiod && p.Namespace == r.Namespace {
			replicas[p.Revision]++
		}
	}
	names := slices.Sorted(maps.Keys(replicas))
	if r.Revision != "" || len(names) < 2 {
		return
	}
	chosen := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(replicas[a], replicas[b]) })
	r.Revision, r.from.Revision = chosen, chosen
	r.unknown(assess.OtherRevisions.Of(strings.Join(names, ", "), chosen))
}

func (o Assessment) source() string {
	cluster := "the cluster of context " + o.Context
	switch {
	case o.Lab == lab.KindLocal:
		cluster = "the local lab"
	case o.Context == "":
		cluster = "the cluster of the current context"
	}
	return "the mesh of " + cluster + o.andPrometheus()
}

func (o Assessment) andPrometheus() string {
	if o.Prometheus == nil {
		return ""
	}
	return ", with " + o.Prometheus.String()
}

// redirection is the annotation of a pod whose requests a ztunnel carries.
const redirection = "ambient.istio.io/redirection"

// listProxies lists the mesh's proxies and istiods.
func (r *meshRead) listProxies(ctx context.Context) error {
	nodes := map[string]bool{}
	page := metav1.ListOptions{FieldSelector: "status.phase=Running", Limit: podsAtATime}
	for {
		list, err := r.from.kube.CoreV1().Pods(r.PodNamespace).List(ctx, page)
		if err != nil {
			r.pods, r.proxies, r.containers, r.e.Enrolled = nil, nil, nil, 0 // a part would pass for the mesh
			return fmt.Errorf("list the mesh's pods: %w", err)
		}
		for _, pod := range list.Items {
			nodes[pod.Spec.NodeName] = true
			if pod.DeletionTimestamp != nil {
				continue
			}
			p, container, ok := proxyOf(pod)
			if !ok {
				if pod.Annotations[redirection] == "enabled" {
					r.e.Enrolled++
				}
				continue
			}
			r.pods, r.proxies = append(r.pods, slim(pod)), append(r.proxies, p)
			r.containers = append(r.containers, kubelet.Container{Pod: pod.Namespace + "/" + pod.Name, Name: container})
		}
		if page.Continue = list.Continue; page.Continue == "" {
			r.e.Nodes = len(nodes)
			return nil
		}
	}
}

// podsAtATime is how many pods the API server lists in one answer.
const podsAtATime = 500

// slim leaves out of a pod what takes most memory: thousands are kept.
func slim(pod corev1.Pod) corev1.Pod {
	out := corev1.Pod{Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP,
		ContainerStatuses: pod.Status.ContainerStatuses, InitContainerStatuses: pod.Status.InitContainerStatuses}}
	out.Namespace, out.Name, out.Labels, out.Spec.NodeName = pod.Namespace, pod.Name, pod.Labels, pod.Spec.NodeName
	containers := func(all []corev1.Container) (out []corev1.Container) {
		for _, c := range all {
			out = append(out, corev1.Container{Name: c.Name, Image: c.Image, Args: c.Args, Resources: c.Resources})
		}
		return out
	}
	out.Spec.Containers, out.Spec.InitContainers = containers(pod.Spec.Containers), containers(pod.Spec.InitContainers)
	return out
}

// proxyOf is the proxy of a pod, or the replica of istiod that it is, with its container.
func proxyOf(pod corev1.Pod) (p assess.Proxy, container string, ok bool) {
	p = assess.Proxy{Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName, Revision: injectedBy(pod)}
	names := Istio().Proxies(record.PlaceSidecar).Containers
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		switch istiod := pod.Labels["app"] == "istiod" && c.Name == "discovery"; {
		case istiod:
			p.Kind, p.Revision, p.Analyses = assess.Istiod, Istio().RevisionOf(pod.Labels), analysesOf(c)
		case !slices.Contains(names, c.Name):
			continue
		case slices.Contains(c.Args, "ztunnel"):
			p.Kind = assess.Ztunnel
		case slices.Contains(c.Args, "waypoint"):
			p.Kind = assess.Waypoint
		case generate.NotSidecar(c.Args):
			p.Kind = assess.Gateway
		default:
			p.Kind = assess.Sidecar
		}
		p.Version, container, p.Threads = tagOf(c.Image), c.Name, threadsOf(c)
		p.Requests, p.Limits = resources(c.Resources.Requests), resources(c.Resources.Limits)
		for _, s := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
			if s.Name == c.Name {
				p.Restarts = int(s.RestartCount)
			}
		}
		return p, container, true
	}
	return p, "", false
}

// analysesOf reports whether istiod analyses configuration; nil if its variable has its value from elsewhere.
func analysesOf(istiod corev1.Container) *bool {
	on := false // the default
	for _, env := range istiod.Env {
		if env.Name == "PILOT_ENABLE_ANALYSIS" {
			if env.ValueFrom != nil {
				return nil
			}
			on, _ = strconv.ParseBool(env.Value) // as istiod reads it
		}
	}
	return &on
}

// threadsOf returns the number of worker threads set for a proxy; 0 if none is set.
func threadsOf(c corev1.Container) int {
	for i, arg := range c.Args {
		if value, is := strings.CutPrefix(arg, "--concurrency"); is {
			if value == "" && i+1 < len(c.Args) {
				value = c.Args[i+1]
			}
			n, _ := strconv.Atoi(strings.TrimPrefix(value, "="))
			return n
		}
	}
	for _, env := range c.Env {
		if env.Name == "PROXY_CONFIG" {
			var config struct {
				Threads int `json:"concurrency"`
			}
			_ = json.Unmarshal([]byte(env.Value), &config) // then it is unknown
			return config.Threads
		}
	}
	return 0
}

// injectedBy is the revision of the istiod that configures a proxy: the injector annotates pods with its own, since
// their label may be a tag of several revisions.
func injectedBy(pod corev1.Pod) string {
	const revision = "istio.io/rev"
	return cmp.Or(pod.Annotations[revision], pod.Labels[revision])
}

// tagOf is the tag of an image; its digest where it has none.
func tagOf(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[i+1:]
	}
	return digest
}

func resources(list corev1.ResourceList) assess.Resources {
	return assess.Resources{Cores: list.Cpu().AsApproximateFloat64(), Bytes: list.Memory().AsApproximateFloat64()}
}

// counts are the kinds of objects that are counted, beside those of the inventory.
var counts = [][2]string{
	{"Gateway (Istio)", "/apis/networking.istio.io/v1/gateways"}, {"Gateway (Kubernetes)", "/apis/gateway.networking.k8s.io/v1/gateways"},
	{"WorkloadGroup", "/apis/networking.istio.io/v1/workloadgroups"}, {"ProxyConfig", "/apis/networking.istio.io/v1beta1/proxyconfigs"},
	{"PeerAuthentication", "/apis/security.istio.io/v1/peerauthentications"},
	{"Telemetry", "/apis/telemetry.istio.io/v1/telemetries"},
}

// readConfiguration reads what is in the mesh, and what some of its proxies hold and called.
func (r *meshRead) readConfiguration(ctx context.Context) error {
	if r.Section != assess.SectionConfiguration || r.Scopes != nil {
		notes, err := ReadInventory(ctx, r.from.kube, r.Revision, r.inv)
		if err != nil {
			return err
		}
		for _, n := range notes {
			r.unknown(assess.NotRead.Of(n))
		}
	}
	if r.Section == "" {
		if err := r.readMore(ctx); err != nil {
			return err
		}
	}
	r.e.Objects = r.inv.Objects()
	delete(r.e.Objects, kindConfig) // the mesh's own
	for _, kind := range counts {
		if r.Section != "" {
			break
		}
		n, err := countObjects(ctx, r.from.kube, kind[1])
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			r.unknown(assess.NoKind.Of(kind[0], err))
		default:
			r.e.Objects[kind[0]] = n
		}
	}
	for i := range r.proxies {
		r.proxies[i].Workload = r.inv.WorkloadOf(r.proxies[i].Namespace, r.proxies[i].Pod).Name
	}
	return r.readSidecars(ctx)
}

// countAgain asks again, and keeps how fast the counters rose.
func (r *meshRead) countAgain(ctx context.Context) error {
	port := Istio().Proxies(record.PlaceSidecar).AdminPort
	asked := slices.DeleteFunc(slices.Clone(r.scope), func(p scope.Proxy) bool { _, counted := r.first[p.Name]; return !counted })
	ask := func(ctx context.Context, p scope.Proxy) (counted, error) {
		namespace, name, _ := strings.Cut(p.Name, "/")
		client, hangUp := r.dial(namespace, name, port)
		defer hangUp()
		defer client.CloseIdleConnections()
		c, err := askCounts(ctx, client)
		if err == nil {
			c.bodies = askBodies(ctx, client)
		}
		return c, err
	}
	err := eachOf(ctx, r, r.readingTime(), asked, func(p scope.Proxy) string { return p.Name }, ask, func(p scope.Proxy, now counted, failure error) {
		if failure == nil {
			r.compare(p.Name, r.first[p.Name], now)
			r.bodies = r.bodies.plus(now.bodies)
		}
	})
	r.compared()
	r.e.Sizes = r.bodies.sizes()
	return err
}

// compare keeps how fast a proxy's counters rose from one reading to the next.
func (r *meshRead) compare(pod string, had, now counted) {
	seconds := now.at.Sub(had.at).Seconds()
	if seconds <= 0 {
		return
	}
	rates, whole := ratesOf(had.Endpoints, now.Endpoints, seconds)
	if !whole {
		r.fell = append(r.fell, pod)
		return
	}
	for cluster := range now.Endpoints {
		if scope.OwnCluster(cluster) && strings.Contains(cluster, "Passthrough") {
			r.strange++
			break
		}
	}
	r.comparedS += seconds
	r.rates[pod] = rates
}

// compared reports what could not be compared.
func (r *meshRead) compared() {
	if len(r.fell) > 0 {
		r.unknown(assess.CountersFell.Of(len(r.fell), slices.Min(r.fell)))
	}
	r.some(assess.Passthrough, r.strange)
	r.e.TrafficS = r.comparedS / float64(max(1, len(r.rates)))
}

// ratesOf are the rates of clusters that lead to services. They are not whole if a counter fell: an endpoint took
// its count with it, or the proxy restarted.
func ratesOf(had, now map[string]map[string]scope.Count, seconds float64) (rates map[string]rate, whole bool) {
	rates = map[string]rate{}
	for cluster, endpoints := range had {
		if _, _, _, _, ok := scope.SplitCluster(cluster); !ok {
			continue
		}
		for address, n := range endpoints {
			if now[cluster][address].Requests < n.Requests {
				return nil, false
			}
		}
	}
	for cluster, endpoints := range now {
		if _, _, _, _, ok := scope.SplitCluster(cluster); !ok {
			continue
		}
		var rose int64
		r := rate{}
		for address, n := range endpoints {
			rose += n.Requests - had[cluster][address].Requests
			r.parsed, r.open = r.parsed || n.Parsed, r.open+n.Open
		}
		if r.perS = float64(rose) / seconds; rose > 0 {
			rates[unique.Make(cluster).Value()] = r
		}
	}
	return rates, true
}

// traffic turns rates of clusters into calls.
func (r *meshRead) traffic() {
	type edge struct {
		from generate.Workload
		host string
		tcp  bool
	}
	calls := map[edge]*assess.Call{}
	for i := range r.proxies {
		p := &r.proxies[i]
		rates, ok := r.rates[p.Namespace+"/"+p.Pod]
		if !ok {
			continue
		}
		p.Called, p.Served, p.Connections, p.Open = new(float64), new(float64), new(float64), new(float64)
		for cluster, rate := range rates {
			direction, port, _, host, named := scope.SplitCluster(cluster)
			number, _ := strconv.Atoi(port)
			switch {
			case !named || rate.perS == 0:
				continue
			case direction != "outbound" && (rate.parsed || r.inv.ServesRequests(generate.Workload{Namespace: p.Namespace, Name: p.Workload}, number)):
				*p.Served += rate.perS
				continue
			case direction != "outbound":
				*p.Connections += rate.perS
				continue
			}
			tcp, routed := r.inv.Calls(host, number)
			if tcp {
				*p.Connections += rate.perS
			} else {
				*p.Called += rate.perS
				*p.Open += float64(rate.open)
			}
			k := edge{generate.Workload{Namespace: p.Namespace, Name: p.Workload}, host, tcp}
			if calls[k] == nil {
				calls[k] = &assess.Call{From: k.from, Host: host, TCP: tcp, Routed: routed && !tcp}
			}
			calls[k].PerS += rate.perS
		}
	}
	for _, c := range calls {
		r.e.Calls = append(r.e.Calls, *c)
	}
	r.sortCalls()
}

func (r *meshRead) sortCalls() {
	slices.SortFunc(r.e.Calls, func(a, b assess.Call) int {
		return cmp.Or(cmp.Compare(a.From.String(), b.From.String()), cmp.Compare(a.Host, b.Host), cmp.Compare(b.PerS, a.PerS),
			cmp.Compare(strconv.FormatBool(a.TCP), strconv.FormatBool(b.TCP)))
	})
}

// hosts says of what the workloads may call, and of what they call, which proxies its requests need.
func (r *meshRead) hosts() {
	known := map[string]bool{}
	add := func(name, namespace string) {
		if known[name] {
			return
		}
		known[name] = true
		h := assess.Host{Name: name, Namespace: namespace}
		for _, o := range r.inv.L7(name) {
			h.Needs = append(h.Needs, o.String())
		}
		r.e.Hosts = append(r.e.Hosts, h)
	}
	r.e.Hosts = []assess.Host{}
	namespaces := map[string]bool{}
	for _, p := range r.proxies {
		if p.Kind == assess.Sidecar && !namespaces[p.Namespace] {
			namespaces[p.Namespace] = true
			for _, name := range r.inv.Hosts(p.Namespace) {
				add(name, p.Namespace)
			}
		}
	}
	for _, c := range r.e.Calls {
		add(c.Host, "")
	}
	for _, f := range r.inv.Filters() {
		if len(r.e.Filters) < mostFilters {
			r.e.Filters = append(r.e.Filters, filterOf(f, len(r.e.Filters)+1))
		}
	}
	for _, kind := range append([]string{"Service"}, generate.L7Kinds...) {
		if !r.inv.Has(kind) {
			r.e.Unread = append(r.e.Unread, kind)
		}
	}
}

// mostFilters limits the EnvoyFilters of a study: each is a cell, with trials of its own.
const mostFilters = 6

// filterOf is an EnvoyFilter as a study has it, with a number for one whose name no study can have.
func filterOf(f generate.Filter, number int) assess.Filter {
	name := strings.ReplaceAll(f.Owner.Namespace+"-"+f.Owner.Name, ".", "-")
	of := f.Owner.Namespace + "/" + f.Owner.Name
	if !study.NamePattern.MatchString(name) {
		name, of = fmt.Sprintf("filter-%d", number), strconv.Quote(of)
	}
	patches, err := json.Marshal(struct {
		Priority int64           `json:"priority,omitempty"`
		Patches  json.RawMessage `json:"configPatches"`
	}{f.Priority, f.Patches})
	if err != nil { // it was read as JSON
		panic(err)
	}
	return assess.Filter{Of: of, Name: name, Patches: string(patches)}
}

// advised judges what the watch saw of istiod, and what proxies hold.
func (r *meshRead) advised(ctx context.Context, seen IstiodSeen) error {
	read := map[string]bool{}
	for _, p := range r.scope {
		read[p.Name] = true
	}
	sample := slices.DeleteFunc(slices.Clone(r.pods), func(pod corev1.Pod) bool { return !read[pod.Namespace+"/"+pod.Name] })
	e := seen.Evidence
	if len(r.scope) > 0 {
		e.Notes = append(e.Notes, r.sums.facts.Facts(e.Facts)...)
		share, err := r.from.Scoped(ctx, sample)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			e.Notes = append(e.Notes, "it is unknown which Sidecars apply to the proxies that were read: "+err.Error())
		default:
			e.Facts[advice.ScopedShare] = share
		}
	}
	judged := advice.Judge(e)
	r.e.Istiod, r.e.Limits, r.e.Signals, r.e.Settings = seen.Version, &judged, &seen.Signals, changedSettings(e.Levers)
	for _, n := range judged.Notes {
		r.unknown(assess.NotRead.Of(n))
	}
	return nil
}

// changedSettings returns the levers whose levels as found differ from Istio's defaults. The
// image is no setting: versions are shown elsewhere.
func changedSettings(found record.Cell) (out []assess.Setting) {
	for _, f := range controlplane.Levers() {
		if level := found[f.Name]; level != "" && level != f.Usual && (level != study.LevelNone || f.Usual != "") && f.Name != controlplane.FactorIstiod {
			out = append(out, assess.Setting{Name: f.Name, Level: level, Default: f.Usual})
		}
	}
	return out
}

// configured says who owns what proxies hold, and which Sidecars would suit what they call.
func (r *meshRead) configured(ctx context.Context) error {
	obs := r.sums.obs
	alone := r.Section == assess.SectionConfiguration
	if len(r.scope) == 0 && !alone {
		return nil
	}
	if len(r.scope) > 0 {
		held := r.sums.held.Report()
		slices.SortFunc(held.Proxies, func(a, b scope.Proxy) int { return cmp.Compare(a.Name, b.Name) })
		r.e.Scope = &held
	}
	if alone && r.Scopes == nil {
		return nil
	}
	var server *signals.Remote
	if alone { // a query over a month is not asked in passing
		server = r.Prometheus
	}
	notes, err := r.Calls.read(ctx, server, r.inv, obs)
	if err == nil && alone && obs.Empty() {
		err = errs.WithHint(errs.Usage("nothing tells who calls whom"), "give the counters of proxies, access logs, a graph of Kiali or answers of Prometheus")
	}
	if err != nil {
		return err
	}
	o := generate.Options{Window: generate.DefaultWindow, Watched: generate.DefaultWatched}
	if r.Scopes != nil {
		o = *r.Scopes
	}
	o.Now = time.Now()
	made, err := generate.Generate(r.inv, obs, r.sums.scale.Accounts(), o)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && alone:
		return err
	case err != nil:
		r.unknown(assess.NoScopes.Of(err))
		return nil
	}
	made.Notes = slices.Concat(made.Notes, r.callNotes, notes)
	r.e.Sidecars = &made
	return nil
}

// readMore lists what the inventory of [ReadInventory] has no use for.
func (r *meshRead) readMore(ctx context.Context) error {
	for _, list := range []struct {
		kind, path string
		read       func(io.Reader) error
	}{
		{kindPolicy, "/apis/security.istio.io/v1/authorizationpolicies", func(in io.Reader) error { return r.inv.Read(in, kindPolicy) }},
		{kindAutoscaler, "/apis/autoscaling/v2/horizontalpodautoscalers", func(in io.Reader) error {
			return scope.ReadObjects(in, func(_ string, raw json.RawMessage) error { return r.autoscaler(raw) })
		}},
	} {
		body, err := r.from.kube.CoreV1().RESTClient().Get().AbsPath(list.path).Stream(ctx)
		switch {
		case err == nil:
			err = errors.Join(list.read(body), body.Close())
		case apierrors.IsNotFound(err): // there is no such kind of object
			err = list.read(strings.NewReader(`{"items":[]}`))
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			r.unknown(assess.NoKind.Of(list.kind, err))
		}
	}
	return nil
}

// Kinds of objects that are read beside the inventory's.
const (
	kindPolicy     = "AuthorizationPolicy"
	kindAutoscaler = "HorizontalPodAutoscaler"
)

// autoscaler keeps the bounds that an autoscaler of a Deployment sets.
func (r *meshRead) autoscaler(raw json.RawMessage) error {
	var o autoscaling.HorizontalPodAutoscaler
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("%s: %w", kindAutoscaler, err)
	}
	if target := o.Spec.ScaleTargetRef; target.Kind == "Deployment" {
		bounds := assess.Bounds{Least: 1, Most: int(o.Spec.MaxReplicas)} // 1 is Kubernetes' default
		if o.Spec.MinReplicas != nil {
			bounds.Least = int(*o.Spec.MinReplicas)
		}
		r.e.Autoscalers = append(r.e.Autoscalers, assess.Autoscaler{Namespace: o.Namespace, Of: target.Name, Bounds: bounds})
	}
	return nil
}

// countObjects is how many objects a list of the API server has, without reading them; 0 where there is no such
// kind.
func countObjects(ctx context.Context, kube kubernetes.Interface, path string) (int, error) {
	body, err := kube.CoreV1().RESTClient().Get().AbsPath(path).Param("limit", "1").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var list metav1.PartialObjectMetadataList
	err = json.Unmarshal(body, &list)
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, err
}
