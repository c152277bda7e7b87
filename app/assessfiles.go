package app

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/unpack"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// OpenFile passes a file's contents, unpacked, to f.
type OpenFile func(ctx context.Context, name string, f func(io.Reader) error) error

// FromFiles assesses what files tell of a mesh, whatever they are called. A file that cannot be read, or that holds
// nothing of a mesh, is an unknown.
func (o Assessment) FromFiles(ctx context.Context, files []string, open OpenFile) (a assess.Assessment, made Made, err error) {
	for _, name := range files {
		if err := refuseBlocks(name); err != nil {
			return a, made, err
		}
	}
	runs, err := o.unitCosts(ctx)
	if err != nil {
		return a, made, err
	}
	r := &filesRead{meshRead: newMeshRead(o, "the mesh of "+words.Plural(len(files), "file")+o.andPrometheus(), nil, nil),
		nodes: map[string]bool{}, seen: map[string]bool{}, listed: map[string]bool{}, istiods: map[string][]page{}, addresses: map[string]string{}, started: map[string]time.Time{},
		others: map[string]map[string]bool{}, dumped: map[string]bool{}, counts: map[string][]counted{}, starts: map[string][]time.Time{}, accessLogs: assess.NewAccessLogs(), pages: map[string][]metered{}, meteredS: map[string]float64{}, meshes: map[string][]byte{}, threads: map[string]int{}, synced: map[string]bool{}}
	for _, name := range inTurn(ctx, files, open) {
		err := open(ctx, name, func(in io.Reader) error { return r.file(in, input{name: name}) })
		switch {
		case ctx.Err() != nil:
			return a, made, context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist), // mistyped
			err != nil && o.Section == assess.SectionConfiguration: // what is generated must not lack a part of the mesh
			return a, made, errs.WithCode(err, errs.CodeUsage)
		case err != nil:
			r.isBroken(assess.FileNotRead.Of(err))
		}
	}
	r.e.Log = r.logs.Log()
	r.flush()
	r.oneRevision()
	if r.unrelated > 0 {
		r.unknown(assess.FileUnknown.Of(r.unrelated, r.firstUnrelated))
	}
	if o.Section != assess.SectionConfiguration {
		if err := r.watched(ctx); err != nil {
			return a, made, err
		}
	} else if r.unrelated+r.broken > 0 {
		return a, made, errs.WithHint(errs.Usage("%v", r.e.Unknown[0].What), "%s", scope.TakeDump)
	}
	r.countedTwice()
	r.e.Nodes, r.e.Objects = len(r.nodes), r.inv.Objects()
	delete(r.e.Objects, kindConfig) // they are of applications
	for kind, names := range r.others {
		r.e.Objects[kind] = len(names)
	}
	for i := range r.proxies {
		p := &r.proxies[i]
		p.Workload = r.inv.WorkloadOf(p.Namespace, p.Pod).Name
		p.Threads = cmp.Or(p.Threads, r.threads[p.Namespace+"/"+p.Pod])
	}
	r.traffic()
	r.meteredTwice()
	r.compared()
	r.logged()
	if o.Section != assess.SectionConfiguration {
		if err := r.readAnswers(ctx); err != nil {
			return a, made, err
		}
		if err := r.askPrometheus(ctx); err != nil {
			return a, made, err
		}
		if r.e.Limits == nil {
			r.unknown(assess.NoPage.Of())
		}
	}
	r.some(assess.FilesNotRead, r.broken-maxListed)
	r.e.Proxies = r.proxies
	r.hosts()
	if err := r.configured(ctx); err != nil {
		return a, made, err
	}
	a, err = o.concluded(ctx, r.e, runs)
	return a, Made{r.inv, r.e.Sidecars}, err
}

// standardInput is the name of what is read once.
const standardInput = "-"

// inTurn orders files so that what is in the mesh comes before what its proxies hold and count. Pipes, which can be
// read only once, keep their place.
func inTurn(ctx context.Context, files []string, open OpenFile) []string {
	first := map[assess.Content]int{assess.ContentObjects: -1, assess.ContentYAML: -1}
	turn := map[string]int{}
	for _, name := range files {
		if info, err := os.Stat(name); name == standardInput || err == nil && !info.Mode().IsRegular() {
			continue
		}
		_ = open(ctx, name, func(in io.Reader) error { // an error recurs when it is read
			head, _ := bufio.NewReaderSize(in, assess.Head).Peek(assess.Head)
			turn[name] = first[assess.Sniff(head, false)]
			return nil
		})
	}
	return slices.SortedStableFunc(slices.Values(files), func(a, b string) int { return cmp.Compare(turn[a], turn[b]) })
}

// filesRead is what was read of a mesh from files.
type filesRead struct {
	*meshRead
	nodes      map[string]bool
	seen       map[string]bool            // objects, KIND NAMESPACE/NAME
	listed     map[string]bool            // pods, NAMESPACE/NAME
	addresses  map[string]string          // pods by IP; "" for an address of several
	started    map[string]time.Time       // when the proxies of pods started
	others     map[string]map[string]bool // names of objects that are counted alone, by kind
	istiods    map[string][]page          // pages of metrics by their process
	held       int                        // bytes of the pages
	dumped     map[string]bool            // proxies whose configuration was read
	counts     map[string][]counted       // counters by pod, or by file where the pod is unknown
	readings   int                        // of counters
	starts     map[string][]time.Time     // when proxies started, by their own metrics, by pod
	pages      map[string][]metered       // metrics pages of proxies, by pod or file
	meteredS   map[string]float64         // seconds between the pages that were compared, by pod
	accessLogs *assess.AccessLogs
	filters    scope.Filters   // those that were read so far
	answers    signals.Answers // of Prometheus
	logs       assess.Logs     // of istiod
	istiodPods []corev1.Pod
	meshes     map[string][]byte // mesh configuration as YAML, by the ConfigMap's NAMESPACE/NAME
	threads    map[string]int    // of proxies that tell their own, by pod
	synced     map[string]bool   // proxies of which an istiod told what they acknowledged
	revision   string            // of the istiods whose pages were kept; "" if unknown
	pending    *scope.Proxy      // the last that was read, whose counters may follow
	// unrelated counts files about something else than a mesh, broken those that could not be read.
	unrelated, broken int
	firstUnrelated    string
}

// input is a file, or one in an archive.
type input struct {
	name     string // NAME, or ARCHIVE:NAME
	pod      string // that it is of, NAMESPACE/NAME; "" if unknown
	page     string // its name in a bug report
	at       time.Time
	archived bool
}

// page is a metrics page of istiod. Its process started at Unix time started, in seconds, and
// had run for uptime.
type page struct {
	text    []byte
	uptime  time.Duration
	started float64
	file    input
	tag     string // istiod's version; "" if unknown
}

// Limits of what is kept of files, which may be compressed a thousandfold.
const (
	mostPages = 256 << 20 // bytes
	mostDumps = 20_000
	// mostAge limits the age of a process, in seconds.
	mostAge = 10 * 365 * 86400
)

// isBroken counts a file that could not be read, and lists the first ones.
func (r *filesRead) isBroken(u assess.Unknown) {
	if r.broken++; r.broken <= maxListed {
		r.unknown(u)
	}
}

// isUnrelated counts a file about something else than a mesh.
func (r *filesRead) isUnrelated(name string) {
	if r.unrelated++; r.unrelated == 1 {
		r.firstUnrelated = name
	}
}

// file reads one file.
func (r *filesRead) file(in io.Reader, of input) error {
	in, err := unpack.Reader(in)
	if err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(in, assess.Head)
	head, err := buffered.Peek(assess.Head)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch of.page {
	case pageServerInfo:
		return r.serverInfo(buffered, of)
	case pageSync:
		return r.sync(buffered)
	case pageProxyLog: // an access log begins after the agent's lines
		if err := r.accessLogs.Read(buffered, of.name, of.pod); !errors.Is(err, assess.ErrNoAccessLog) { // it may have none
			return err
		}
		return nil
	}
	switch content := assess.Sniff(head, len(head) >= confile.Probe() && confile.Is(head)); content {
	case assess.ContentArchive:
		if of.archived { // no archives in archives
			r.isUnrelated(of.name)
			return nil
		}
		return r.archive(buffered, of.name)
	case assess.ContentDump, assess.ContentRecorded:
		return r.dump(buffered, of)
	case assess.ContentClusters, assess.ContentClustersText:
		return r.clusters(buffered, of, content)
	case assess.ContentObjects:
		return scope.ReadObjects(buffered, r.object)
	case assess.ContentYAML:
		broken, err := scope.ReadYAML(buffered, r.wants, func(raw json.RawMessage) error { return r.object("", raw) })
		if broken > 1 {
			err = fmt.Errorf("%w, and %s", err, words.Plural(broken-1, "more object"))
		}
		if err == nil && of.page == pageCustom {
			for _, kind := range generate.L7Kinds { // those of which it has none were listed too
				err = errors.Join(err, r.inv.Read(strings.NewReader(`{"items":[]}`), kind))
			}
		}
		return err
	case assess.ContentKiali:
		return r.sums.obs.ReadKiali(buffered, r.inv.Domain)
	case assess.ContentMetrics:
		return r.metrics(buffered, of)
	case assess.ContentAccessLog:
		return r.accessLogs.Read(buffered, of.name, of.pod)
	case assess.ContentProfile:
		return r.profile(buffered, of.name)
	case assess.ContentLog:
		return r.logs.Read(buffered)
	case assess.ContentAnswer:
		if r.Section == assess.SectionConfiguration {
			c := callReading{CallSources: r.Calls, obs: r.sums.obs}
			err := c.answer(buffered, of.name)
			r.callNotes = append(r.callNotes, c.notes...)
			return err
		}
		err := r.answers.Read(buffered)
		if errors.Is(err, signals.ErrNameless) {
			r.isBroken(assess.FileNameless.Of(of.name))
			return nil
		}
		return err
	default:
		r.isUnrelated(of.name)
	}
	return nil
}

// archive reads the files of an archive, one after the other, wherever they say that they belong. One that cannot be
// read does not keep the others.
func (r *filesRead) archive(in io.Reader, name string) error {
	files := tar.NewReader(in)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		report, ignored, is := inReport(header.Name)
		if header.Typeflag != tar.TypeReg || header.Size == 0 || ignored {
			continue
		}
		of := input{name: name + ":" + printable(header.Name), archived: true}
		if is { // its files have the times at which they were taken
			of.pod, of.page, of.at = report.pod, report.page, header.ModTime
		}
		if err := r.file(files, of); err != nil {
			r.isBroken(assess.FileNotRead.Of(fmt.Errorf("%s: %w", of.name, err)))
		}
	}
}

// printable is a name that an archive gives, as it may be shown.
func printable(name string) string {
	const longest = 200
	if len(name) > longest {
		name = name[:longest] + "..."
	}
	if quoted := strconv.QuoteToGraphic(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// otherKinds are those that are counted alone, by the group of their API.
var otherKinds = map[string]string{"networking.istio.io Gateway": "Gateway (Istio)", "gateway.networking.k8s.io Gateway": "Gateway (Kubernetes)",
	"networking.istio.io WorkloadGroup": "WorkloadGroup", "networking.istio.io ProxyConfig": "ProxyConfig",
	"security.istio.io PeerAuthentication": "PeerAuthentication",
	"telemetry.istio.io Telemetry":         "Telemetry"}

// wants reports whether objects of a kind are read.
func (r *filesRead) wants(kind string) bool {
	return generate.Reads(kind) || kind == kindAutoscaler || kind == kindConfig || slices.ContainsFunc(slices.Collect(maps.Keys(otherKinds)), func(known string) bool { return strings.HasSuffix(known, " "+kind) })
}

// object reads an object of the mesh. kind is that of its list, if it does not name its own.
func (r *filesRead) object(kind string, raw json.RawMessage) error {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	group := o.GroupVersionKind().Group
	if name := otherKinds[group+" "+cmp.Or(o.Kind, kind)]; name != "" {
		if r.others[name] == nil {
			r.others[name] = map[string]bool{}
		}
		r.others[name][o.Namespace+"/"+o.Name] = true
	}
	if !slices.Contains([]string{"", "apps", "autoscaling", "batch", "gateway.networking.k8s.io"}, group) && !strings.HasSuffix(group, ".istio.io") {
		return nil // such as a Service of Knative
	}
	name := cmp.Or(o.Kind, kind) + " " + o.Namespace + "/" + o.Name
	if r.seen[name] && r.Section != assess.SectionConfiguration { // there, what is listed later replaces it
		return nil
	}
	named, err := r.inv.Add(kind, raw)
	if err == nil && named == "EnvoyFilter" {
		err = r.filters.Add(raw)
	}
	if err == nil && named == kindAutoscaler {
		err = r.autoscaler(raw)
	}
	if err == nil && named == kindConfig {
		err = r.config(o.Namespace+"/"+o.Name, raw)
	}
	if err == nil && (generate.Reads(named) || named == kindAutoscaler) {
		r.seen[name] = true
	}
	if err != nil || named != "Pod" {
		return err
	}
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return err
	}
	if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
		r.pod(pod)
	}
	return nil
}

// pod counts a pod once.
func (r *filesRead) pod(pod corev1.Pod) {
	name := pod.Namespace + "/" + pod.Name
	if r.listed[name] {
		return
	}
	r.listed[name], r.nodes[pod.Spec.NodeName], r.started[name] = true, true, gather.ProxyStarted(pod)
	if ip := pod.Status.PodIP; ip != "" && !pod.Spec.HostNetwork {
		r.addresses[ip] = name
	}
	p, _, ok := proxyOf(pod)
	switch {
	case ok:
		r.proxies = append(r.proxies, p)
		if p.Kind == assess.Istiod {
			r.istiodPods = append(r.istiodPods, pod)
		}
	case pod.Annotations[redirection] == "enabled":
		r.e.Enrolled++
	}
}

// metrics keeps a page of istiod, and what a page of a proxy counts.
func (r *filesRead) metrics(in io.Reader, of input) error {
	text, err := io.ReadAll(io.LimitReader(in, signals.MaxPage+1))
	if err == nil && len(text) > signals.MaxPage {
		err = signals.ErrPageTooLarge
	}
	if err != nil {
		return err
	}
	metrics, err := observe.ParsePrometheus(text)
	if err != nil {
		return err
	}
	uptime, timed := observe.Sum(metrics, "istiod_uptime_seconds", nil)
	started, _ := observe.Sum(metrics, "process_start_time_seconds", nil)
	if _, istiod := observe.Sum(metrics, "pilot_xds_pushes", nil); !istiod && !timed {
		if _, istiod = observe.Sum(metrics, "pilot_services", nil); !istiod {
			m, proxy := meter(metrics, of.at)
			if !proxy {
				return errors.New("a metrics page, but neither istiod's nor a proxy's")
			}
			if r.readings++; r.readings > mostDumps {
				return fmt.Errorf("more than %d readings of counters", mostDumps)
			}
			r.pages[r.podOf(of)] = append(r.pages[r.podOf(of)], m)
			return nil
		}
	}
	p := page{text: text, started: started, file: of}
	for _, m := range metrics {
		switch {
		case m.Name == "istio_build" && m.Labels["component"] == "pilot" && m.Labels["tag"] != "unknown":
			p.tag = m.Labels["tag"]
		case m.Name == "pilot_info" && p.tag == "":
			p.tag = pilotVersion(m.Labels["version"])
		}
	}
	if !(uptime >= 0 && uptime <= mostAge) {
		return fmt.Errorf("istiod_uptime_seconds: %g is no age of a process", uptime)
	}
	if r.held += len(text); r.held > mostPages {
		return fmt.Errorf("more than %d MB of metrics pages", mostPages>>20)
	}
	p.uptime = time.Duration(uptime * float64(time.Second)).Truncate(time.Millisecond) // as samples are timed
	key := strconv.FormatFloat(started, 'f', -1, 64)                                   // replicas may start in the same second
	if started == 0 {
		key = cmp.Or(of.pod, podIn(of.name, r.listed))
	}
	r.istiods[key] = append(r.istiods[key], p)
	return nil
}

// pilotVersion is the version in a value such as 1.20.1-f1a2b3-Clean, of pilot_info.
func pilotVersion(text string) string {
	if v, ok := shortVersion(text); ok {
		return v
	}
	return text
}

// withoutReplaced leaves out istiods that were last read before another one started.
func (r *filesRead) withoutReplaced() {
	latest := 0.0
	for _, pages := range r.istiods {
		latest = max(latest, pages[0].started)
	}
	replaced := 0
	for name, pages := range r.istiods {
		var oldest time.Duration
		for _, p := range pages {
			oldest = max(oldest, p.uptime)
		}
		if p := pages[0]; p.started > 0 && oldest > 0 && p.started+oldest.Seconds() < latest {
			delete(r.istiods, name)
			replaced++
		}
	}
	r.some(assess.Replaced, replaced)
}

// watched judges the pages of istiod: rates are over the time between the first and the last of each.
func (r *filesRead) watched(ctx context.Context) (err error) {
	levers := r.settings()
	if len(r.istiods) == 0 {
		return nil
	}
	recorder, remove, err := TemporaryRecorder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	end, window := time.Now().Truncate(time.Millisecond), time.Duration(0)
	for name, pages := range r.istiods {
		if pages[0].uptime == 0 { // this istiod does not tell its age
			for i := range pages {
				pages[i].uptime = time.Duration(i) * r.Apart
			}
		}
		slices.SortFunc(pages, func(a, b page) int { return int(a.uptime - b.uptime) })
		last := pages[len(pages)-1].uptime
		labels := map[string]string{"job": "istiod", "app": "istiod", "pod": "istiod-" + name, "instance": name}
		written := time.Duration(-1)
		for _, p := range pages {
			if p.uptime == written { // the same page twice
				continue
			}
			if err := recorder.AppendPage(end.Add(p.uptime-last), p.text, labels); err != nil {
				r.isBroken(assess.FileNotRead.Of(err))
				continue
			}
			written = p.uptime
		}
		window = max(window, last-pages[0].uptime)
	}
	if window == 0 {
		r.unknown(assess.OnePage.Of())
	}
	r.e.WindowS = window.Seconds()
	e := &advice.Evidence{Source: r.e.Source, WindowS: r.e.WindowS, Levers: levers}
	return r.judge(ctx, recorder.Source(), overall(end.Add(-window), end), end, e)
}
