package app

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// OpenFile passes a file's contents, unpacked, to f.
type OpenFile func(ctx context.Context, name string, f func(io.Reader) error) error

// FromFiles assesses what files tell of a mesh, whatever they are called. A file that cannot be read, or that holds
// nothing of a mesh, is an unknown.
func (o Assessment) FromFiles(ctx context.Context, files []string, open OpenFile) (a assess.Assessment, made Made, err error) {
	runs, err := o.unitCosts(ctx)
	if err != nil {
		return a, made, err
	}
	r := &filesRead{meshRead: meshRead{Assessment: o, inv: generate.NewInventory(), e: assess.Evidence{Source: fmt.Sprintf("the mesh of %d files", len(files)) + o.andPrometheus(), At: time.Now()}},
		obs: generate.NewObservations(), nodes: map[string]bool{}, listed: map[string]bool{}, istiods: map[string][]page{}}
	if o.Calls.Domain != "" {
		r.inv.Domain = o.Calls.Domain
	}
	for _, name := range files {
		err := open(ctx, name, func(in io.Reader) error { return r.file(in, name) })
		switch {
		case ctx.Err() != nil:
			return a, made, context.Cause(ctx)
		case err != nil && o.Section == assess.SectionConfiguration: // what is generated must not lack a part of the mesh
			return a, made, errs.WithCode(err, errs.CodeUsage)
		case err != nil:
			r.isBroken(assess.FileNotRead.Of(err))
		}
	}
	r.e.Log = r.logs.Log()
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
	if more := r.broken - maxListed; more > 0 {
		r.unknown(assess.FilesNotRead.Of(more))
	}
	r.e.Nodes, r.e.Objects = len(r.nodes), r.inv.Objects()
	for i := range r.proxies {
		r.proxies[i].Workload = r.inv.WorkloadOf(r.proxies[i].Namespace, r.proxies[i].Pod).Name
	}
	if o.Section != assess.SectionConfiguration {
		if err := r.readAnswers(ctx); err != nil {
			return a, made, err
		}
		if err := r.askPrometheus(ctx); err != nil {
			return a, made, err
		}
		if r.e.Limits == nil {
			r.unknown(assess.NotWatched.Of("there is no metrics page of istiod"))
		}
	}
	r.e.Proxies = r.proxies
	r.hosts()
	if err := r.configuredBy(ctx, r.obs); err != nil {
		return a, made, err
	}
	a, err = o.conclude(r.e, runs)
	return a, Made{r.inv, r.e.Sidecars}, err
}

// filesRead is what was read of a mesh from files.
type filesRead struct {
	meshRead
	obs     *generate.Observations
	nodes   map[string]bool
	listed  map[string]bool   // pods
	istiods map[string][]page // pages of metrics by when their process started
	held    int               // bytes of the pages
	filters scope.Filters     // those that were read so far
	answers signals.Answers
	logs    assess.Logs
	// unrelated counts files about something else than a mesh, broken those that could not be read.
	unrelated, broken int
	firstUnrelated    string
}

// page is a metrics page of istiod. Its process started at Unix time started, in seconds, and
// had run for uptime.
type page struct {
	text    []byte
	uptime  time.Duration
	started float64
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
func (r *filesRead) file(in io.Reader, name string) error {
	buffered := bufio.NewReaderSize(in, assess.Head)
	head, err := buffered.Peek(assess.Head)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch assess.Sniff(head, len(head) >= confile.Probe() && confile.Is(head)) {
	case assess.ContentArchive:
		return r.archive(buffered, name)
	case assess.ContentDump, assess.ContentRecorded:
		if len(r.scope) == mostDumps {
			return fmt.Errorf("more than %d config dumps", mostDumps)
		}
		p, err := scope.Read(buffered, name, scope.Options{Keep: gather.KeepListeners, Filters: r.filters})
		if err == nil {
			r.scope = append(r.scope, p)
		}
		return err
	case assess.ContentClusters:
		calls, err := scope.ReadCalls(buffered)
		if err == nil && len(r.scope) == 0 {
			err = errors.New("counters of a proxy without its config dump before them")
		}
		if err == nil {
			r.scope[len(r.scope)-1].SetCalls(calls)
		}
		return err
	case assess.ContentObjects:
		return r.objects(buffered)
	case assess.ContentKiali:
		return r.obs.ReadKiali(buffered, r.inv.Domain)
	case assess.ContentMetrics:
		return r.metrics(buffered)
	case assess.ContentLog:
		return r.logs.Read(buffered)
	case assess.ContentAnswer:
		if r.Section == assess.SectionConfiguration {
			c := callReading{CallSources: r.Calls, obs: r.obs}
			err := c.answer(buffered, name)
			r.callNotes = append(r.callNotes, c.notes...)
			return err
		}
		err := r.answers.Read(buffered)
		if errors.Is(err, signals.ErrNameless) {
			r.isBroken(assess.FileNameless.Of(name))
			return nil
		}
		return err
	default:
		r.isUnrelated(name)
	}
	return nil
}

// archive reads the files of an archive, one after the other. One that cannot be read does not keep the others.
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
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if inner := name + ":" + header.Name; header.Size > 0 {
			head, _ := bufio.NewReaderSize(files, assess.Head).Peek(assess.Head)
			if c := assess.Sniff(head, false); c == assess.ContentArchive {
				r.isUnrelated(inner) // no archives in archives
				continue
			}
			if err := r.file(io.MultiReader(bytes.NewReader(head), files), inner); err != nil {
				r.isBroken(assess.FileNotRead.Of(fmt.Errorf("%s: %w", inner, err)))
			}
		}
	}
}

// objects reads what is in the mesh, with its pods.
func (r *filesRead) objects(in io.Reader) error {
	return scope.ReadObjects(in, func(kind string, raw json.RawMessage) error {
		named, err := r.inv.Add(kind, raw)
		if err == nil && named == kindAutoscaler {
			return r.autoscaler(raw)
		}
		if err == nil && named == "EnvoyFilter" {
			err = r.filters.Add(raw)
		}
		if err != nil || named != "Pod" {
			return err
		}
		var pod corev1.Pod
		if err := json.Unmarshal(raw, &pod); err != nil {
			return err
		}
		if pod.Status.Phase == corev1.PodRunning {
			r.pod(pod)
		}
		return nil
	})
}

// pod counts a pod once.
func (r *filesRead) pod(pod corev1.Pod) {
	name := pod.Namespace + "/" + pod.Name
	if r.listed[name] {
		return
	}
	r.listed[name], r.nodes[pod.Spec.NodeName] = true, true
	p, _, ok := proxyOf(pod)
	switch {
	case ok:
		r.proxies = append(r.proxies, p)
	case pod.Annotations[redirection] == "enabled":
		r.e.Enrolled++
	}
}

// metrics keeps a page of istiod.
func (r *filesRead) metrics(in io.Reader) error {
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
			return errors.New("a metrics page, but not istiod's")
		}
	}
	for _, m := range metrics {
		switch {
		case m.Name == "istio_build" && m.Labels["component"] == "pilot" && m.Labels["tag"] != "unknown":
			r.e.Istiod = m.Labels["tag"]
		case m.Name == "pilot_info" && r.e.Istiod == "":
			r.e.Istiod = pilotVersion(m.Labels["version"])
		}
	}
	if !(uptime >= 0 && uptime <= mostAge) {
		return fmt.Errorf("istiod_uptime_seconds: %g is no age of a process", uptime)
	}
	if r.held += len(text); r.held > mostPages {
		return fmt.Errorf("more than %d MB of metrics pages", mostPages>>20)
	}
	key := strconv.FormatFloat(started, 'f', -1, 64) // replicas may start in the same second
	r.istiods[key] = append(r.istiods[key], page{text, time.Duration(uptime * float64(time.Second)), started})
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
	if replaced > 0 {
		r.unknown(assess.Replaced.Of(replaced))
	}
}

// watched judges the pages of istiod: rates are over the time between the first and the last of each.
func (r *filesRead) watched(ctx context.Context) (err error) {
	if len(r.istiods) == 0 {
		return nil
	}
	r.withoutReplaced()
	dir, err := os.MkdirTemp("", "meshtrial-assess-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	recorder, err := signals.OpenRecorder(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()
	end, window := time.Now(), time.Duration(0)
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
	o := overall(end.Add(-window), end)
	e := &advice.Evidence{Source: r.e.Source, WindowS: r.e.WindowS, Facts: map[*advice.Quantity]float64{}}
	if e.Metrics, err = gather.Metrics(ctx, recorder.Source(), o, end); err != nil {
		return err
	}
	gather.HeldFacts(r.scope, nil, end, e.Facts)
	judged := advice.Judge(e)
	reading, err := signals.Read(ctx, recorder.Source(), o, end)
	if err != nil {
		return err
	}
	reading.Source = r.e.Source
	r.e.Limits, r.e.Signals = &judged, &reading
	return nil
}
