package app

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/unpack"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/testing/must"
)

// contents opens files by name, in memory or on disk, unpacked.
func contents(files map[string]string) OpenFile {
	return func(_ context.Context, name string, f func(io.Reader) error) error {
		text, there := files[name]
		if !there {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = string(data)
		}
		in, err := unpack.Reader(strings.NewReader(text))
		if err != nil {
			return err
		}
		return f(in)
	}
}

// fromFiles assesses files in an order.
func fromFiles(t *testing.T, o Assessment, files map[string]string, names []string) assess.Assessment {
	t.Helper()
	a, _, err := o.FromFiles(t.Context(), names, contents(files))
	must.OK(t, err)
	return a
}

func archiveOf(t *testing.T, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		must.OK(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600, Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(text))
		must.OK(t, err)
	}
	must.OK(t, w.Close())
	return out.String()
}

var fakePodList = strings.Replace(fakePods, `{"metadata":{},`, `{"kind":"PodList",`, 1)

const recordedPages = "../observe/signals/testdata/istiod-"

// Files are read by what they hold; what is broken or strange does not keep the others.
func TestAssessFiles(t *testing.T) {
	before, err := os.ReadFile(recordedPages + "before.txt")
	must.OK(t, err)
	files := map[string]string{
		"one":   fakeObjects["services"],
		"two":   fakePodList,
		"three": archiveOf(t, map[string]string{"../../etc/cluster/metrics": string(before), "log": "2026-11-30 info", "cut.json": `{"configs":[{"@type`}),
		"four":  "a log\n", "five": `{"items":[{"kind":"Service","spec":7}]}`, "six": "",
	}
	files["one"] = strings.Replace(files["one"], `{"items"`, `{"kind":"ServiceList","items"`, 1)
	o := Assessment{Apart: time.Minute}
	names := []string{"one", "two", "three", "four", "five", "six", recordedPages + "after.txt", "../advise/scope/testdata/sidecar.json.gz"}
	a := fromFiles(t, o, files, names)
	if a.Mesh.Count(assess.Sidecar) != 1 || a.Mesh.Count(assess.Istiod) != 1 || a.Mesh.Enrolled != 1 || a.Mesh.Objects["Service"] != 3 {
		t.Errorf("%+v", a.Mesh)
	}
	if a.Configuration == nil || len(a.Configuration.Held.Proxies) != 1 || a.Configuration.Held.DumpBytes == 0 {
		t.Errorf("configuration: %+v", a.Configuration)
	}
	if a.WindowS != 60 || a.Limits == nil || !strings.HasPrefix(a.Mesh.Istiod, "1.31") {
		t.Errorf("over %g s, istiod %q", a.WindowS, a.Mesh.Istiod)
	}
	if v, ok := a.Signals.Find("xds_pushes"); !ok || v.Value == nil || !(*v.Value > 0) {
		t.Errorf("pushes: %+v", v)
	}
	if slices.ContainsFunc(a.Limits.Undecided, func(j advice.Judgement) bool { return j.Rule == "headless" || j.Rule == "dns_clusters" }) {
		t.Errorf("what the only proxy holds decides nothing: %+v", a.Limits.Undecided)
	}
	if howMany(assess.FileNotRead, a.Unknown) != 2 || howMany(assess.FileUnknown, a.Unknown) != 1 ||
		assess.OnePage.In(a.Unknown) || !assess.NoCounters.In(a.Unknown) || !assess.UnknownUse.In(a.Unknown) {
		t.Error(a.Unknown)
	}
	if _, _, err := o.FromFiles(t.Context(), []string{"one", "nowhere"}, contents(files)); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Of one page, or of pages whose distance nobody tells, rates are unknown.
func TestAssessOnePage(t *testing.T) {
	for name, files := range map[string][]string{"one": {recordedPages + "before.txt"}, "two": {recordedPages + "before.txt", recordedPages + "after.txt"}} {
		a := fromFiles(t, Assessment{}, nil, files)
		if !assess.OnePage.In(a.Unknown) || a.Signals == nil {
			t.Errorf("%s: %v", name, a.Unknown)
		}
		if v, _ := a.Signals.Find("xds_pushes"); v.Value != nil {
			t.Errorf("%s: a rate without a time: %+v", name, v)
		}
	}
}

// Istiods that started in the same second are distinct. One that was replaced does not count,
// and an impossible age is reported.
func TestAssessIstiods(t *testing.T) {
	page := func(started string, age float64, proxies int) string {
		return fmt.Sprintf("process_start_time_seconds %s\nistiod_uptime_seconds %g\npilot_services 3\npilot_xds %d\n", started, age, proxies)
	}
	proxies := func(pages ...string) (float64, assess.Assessment) {
		files, names := map[string]string{}, []string{}
		for i, text := range pages {
			name := fmt.Sprint(i)
			files[name], names = text, append(names, name)
		}
		a := fromFiles(t, Assessment{}, files, names)
		v, _ := a.Signals.Find("xds_proxies")
		return *v.Value, a
	}
	if n, a := proxies(page("1000.25", 100, 4), page("1000.5", 100, 5)); n != 9 || assess.Replaced.In(a.Unknown) {
		t.Errorf("two that started in one second: %g proxies", n)
	}
	if n, a := proxies(page("1000", 100, 4), page("1150", 20, 5)); n != 5 || !assess.Replaced.In(a.Unknown) {
		t.Errorf("one after the other: %g proxies, %v", n, a.Unknown)
	}
	if n, a := proxies(page("1000", 1e300, 4), page("1000.5", 100, 5)); n != 5 || !assess.FileNotRead.In(a.Unknown) {
		t.Errorf("an endless age: %g proxies, %v", n, a.Unknown)
	}
}

// Pages of two revisions are not added up: of the revision with most replicas they count. Where nobody says of which
// pods pages are, versions tell revisions apart, or the report says that it does not know.
func TestAssessRevisions(t *testing.T) {
	page := func(started string, proxies int, tag string) string {
		return fmt.Sprintf("process_start_time_seconds %s\nistiod_uptime_seconds 100\npilot_services 3\npilot_xds %d\nistio_build{component=\"pilot\",tag=%q} 1\n", started, proxies, tag)
	}
	pods := func(revisions map[string]string) string {
		var items []string
		for pod, revision := range revisions {
			items = append(items, fmt.Sprintf(`{"kind":"Pod","metadata":{"namespace":"istio-system","name":%q,"labels":{"app":"istiod","istio.io/rev":%q}},"spec":{"containers":[{"name":"discovery","image":"pilot:1.30.1"}]},"status":{"phase":"Running"}}`, pod, revision))
		}
		return `{"kind":"List","items":[` + strings.Join(items, ",") + `]}`
	}
	both := map[string]string{"istiod-a": "default", "istiod-b": "default", "istiod-canary-c": "canary"}
	for name, c := range map[string]struct {
		files     map[string]string
		proxies   float64
		istiod    string
		is, isNot []assess.Gap
	}{
		"by pods": {map[string]string{"list": pods(both), "metrics-istiod-a": page("1", 4, "1.30.1"), "metrics-istiod-b": page("2", 5, "1.30.1"), "metrics-istiod-canary-c": page("3", 60, "1.30.1")},
			9, "1.30.1", []assess.Gap{assess.OtherIstiods}, []assess.Gap{assess.PagesUnplaced}},
		"one has no start": {map[string]string{"list": pods(both), "metrics-istiod-a": strings.Replace(page("1", 4, "1.30.1"), "process_start_time_seconds 1", "", 1), "metrics-istiod-b": strings.Replace(page("1", 5, "1.30.1"), "process_start_time_seconds 1", "", 1)},
			9, "1.30.1", nil, []assess.Gap{assess.PagesUnplaced, assess.OtherIstiods}},
		"of a bug report": {map[string]string{"list": pods(both), "report": reportOf(t, time.Unix(1e9, 0), archived{name: "bug-report/istio/istio-system/istiod-a/metrics", text: page("1", 4, "1.30.1")}, archived{name: "bug-report/istio/istio-system/istiod-canary-c/metrics", text: page("3", 60, "1.31.0")})},
			60, "1.31.0", []assess.Gap{assess.OtherIstiods}, nil},
		"by versions": {map[string]string{"one": page("1", 4, "1.30.1"), "two": page("2", 5, "1.31.0"), "three": page("3", 6, "1.31.0")}, 11, "1.31.0", []assess.Gap{assess.OtherIstiods, assess.PagesUnplaced}, nil},
		"not at all":  {map[string]string{"one": page("1", 4, "1.30.1"), "two": page("2", 5, "1.30.1")}, 9, "1.30.1", []assess.Gap{assess.PagesUnplaced}, []assess.Gap{assess.OtherIstiods}},
		"one of another": {map[string]string{"list": pods(both), "metrics-istiod-a": page("1", 4, "1.30.1"), "metrics-istiod-b": page("2", 5, "1.30.1"), "x": page("3", 60, "1.30.1")},
			9, "1.30.1", []assess.Gap{assess.OtherIstiods}, []assess.Gap{assess.PagesUnplaced}},
		"one revision": {map[string]string{"list": pods(map[string]string{"istiod-a": "default"}), "one": page("1", 4, "1.30.1"), "two": page("2", 5, "1.30.1")}, 9, "1.30.1", nil, []assess.Gap{assess.PagesUnplaced, assess.OtherIstiods}},
	} {
		a := fromFiles(t, Assessment{}, c.files, slices.Sorted(maps.Keys(c.files)))
		if v, _ := a.Signals.Find("xds_proxies"); v.Value == nil || *v.Value != c.proxies || a.Mesh.Istiod != c.istiod {
			t.Errorf("%s: %+v proxies of istiod %s, want %g of %s", name, v, a.Mesh.Istiod, c.proxies, c.istiod)
		}
		checkUnknown(t, name, a.Unknown, c.is, c.isNot)
	}
}

// Lists of pods and ConfigMaps tell istiod's settings: those of the revision whose pages were kept.
func TestAssessSettings(t *testing.T) {
	istiod := func(name, revision, debounce string) string {
		return fmt.Sprintf(`{"kind":"Pod","metadata":{"namespace":"istio-system","name":%q,"labels":{"app":"istiod","istio.io/rev":%q}},"spec":{"containers":[{"name":"discovery","image":"pilot:1.30.1","resources":{"limits":{"cpu":"200m"}},`+
			`"env":[{"name":"PILOT_DEBOUNCE_AFTER","value":%q},{"name":"PILOT_PUSH_THROTTLE","valueFrom":{"fieldRef":{"fieldPath":"x"}}}]}]},"status":{"phase":"Running"}}`, name, revision, debounce)
	}
	config := func(name, mesh string) string {
		return fmt.Sprintf(`{"kind":"ConfigMap","metadata":{"namespace":"istio-system","name":%q},"data":{"mesh":%q}}`, name, mesh)
	}
	list := func(items ...string) string { return `{"kind":"List","items":[` + strings.Join(items, ",") + `]}` }
	const page = "process_start_time_seconds 1\nistiod_uptime_seconds 100\npilot_services 3\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  map[string]string
	}{
		"one revision":   {map[string]string{"list": list(istiod("istiod-a", "default", "1s"), config("istio", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}"), config("other", "x: 1"))}, map[string]string{"debounce_after": "1s", "outbound_policy": "REGISTRY_ONLY", "istiod_cpu": "200m", "push_throttle": ""}},
		"the other one":  {map[string]string{"list": list(istiod("istiod-a", "default", "1s"), istiod("istiod-b", "canary", "2s"), config("istio-canary", "{}")), "metrics-istiod-b": page}, map[string]string{"debounce_after": "2s", "outbound_policy": ""}},
		"not the config": {map[string]string{"list": list(istiod("istiod-a", "default", "1s")), "metrics": page}, map[string]string{"debounce_after": "1s", "outbound_policy": ""}},
		"nothing":        {map[string]string{"metrics": page}, map[string]string{"debounce_after": ""}},
	} {
		a := fromFiles(t, Assessment{}, c.files, slices.Sorted(maps.Keys(c.files)))
		got := map[string]string{}
		for _, s := range a.Mesh.Settings {
			got[s.Name] = s.Level
		}
		for setting, level := range c.want {
			if got[setting] != level {
				t.Errorf("%s: %s is %q, want %q: %v", name, setting, got[setting], level, a.Mesh.Settings)
			}
		}
	}
}

// Of thousands of broken and unrelated files a few are listed, and all are counted.
func TestAssessManyBrokenFiles(t *testing.T) {
	broken := map[string]string{"pods.json": fakePodList, "pods again.json": fakePodList}
	for i := range 300 {
		broken[fmt.Sprintf("broken-%d", i)], broken[fmt.Sprintf("strange-%d", i)] = `{"configs":[7`, "a log"
	}
	a := fromFiles(t, Assessment{}, map[string]string{"all": archiveOf(t, broken)}, []string{"all"})
	if len(a.Unknown) > 40 || !assess.FilesNotRead.In(a.Unknown) || !assess.FileUnknown.In(a.Unknown) {
		t.Errorf("%d unknowns: %v", len(a.Unknown), a.Unknown)
	}
	if a.Mesh.Enrolled != 1 || a.Mesh.Count(assess.Sidecar) != 1 {
		t.Errorf("pods that are listed twice: %+v", a.Mesh)
	}
}

// The age that istiod tells orders its pages and is the time between them.
func TestAssessPagesByAge(t *testing.T) {
	page := func(age float64, pushes int) string {
		return fmt.Sprintf("process_start_time_seconds 1\nistiod_uptime_seconds %g\npilot_services 3\npilot_xds_pushes{type=\"cds\"} %d\n", age, pushes)
	}
	a := fromFiles(t, Assessment{}, map[string]string{"later": page(1048.459558479, 1600), "earlier": page(948.459570628, 600)}, []string{"later", "earlier"})
	if v, _ := a.Signals.Find("xds_pushes"); a.WindowS != 100 || v.Value == nil || *v.Value < 9 || *v.Value > 11 {
		t.Errorf("over %g s: %+v", a.WindowS, v)
	}
}

// istiodPage is a metrics page of an istiod after some seconds, with the names and labels that its version has: what
// was added and removed between Istio 1.12 and 1.31.
func istiodPage(version string, seconds float64) string {
	var out strings.Builder
	minor, _ := strconv.Atoi(strings.Split(version, ".")[1])
	counter := func(series string, perS float64) {
		name, _, _ := strings.Cut(series, "{")
		fmt.Fprintf(&out, "# TYPE %s counter\n%s %g\n", name, series, perS*seconds)
	}
	gauge := func(series string, v float64) {
		name, _, _ := strings.Cut(series, "{")
		fmt.Fprintf(&out, "# TYPE %s gauge\n%s %g\n", name, series, v)
	}
	histogram := func(name, label string, mean float64) {
		with := func(more string) string {
			if all := strings.Trim(label+","+more, ","); all != "" {
				return "{" + all + "}"
			}
			return ""
		}
		fmt.Fprintf(&out, "# TYPE %s histogram\n", name)
		for _, le := range []string{"0.1", "1", "+Inf"} {
			fmt.Fprintf(&out, "%s_bucket%s %g\n", name, with("le=\""+le+"\""), 2*seconds)
		}
		fmt.Fprintf(&out, "%s_sum%s %g\n%s_count%s %g\n", name, with(""), 2*seconds*mean, name, with(""), 2*seconds)
	}
	gauge(`istio_build{component="pilot",tag="`+version+`"}`, 1)
	gauge(`pilot_info{version="`+version+`-0123456789abcdef-Clean"}`, 1)
	gauge("istiod_uptime_seconds", seconds)
	gauge("process_start_time_seconds", 1000)
	counter("process_cpu_seconds_total", 0.25)
	gauge("pilot_services", 7)
	gauge(`pilot_xds{version="`+version+`"}`, 3)
	counter(`pilot_xds_pushes{type="cds"}`, 5)
	counter(`pilot_inbound_updates{type="config"}`, 4)
	counter(`pilot_push_triggers{type="endpoint"}`, 6)
	histogram("pilot_proxy_convergence_time", "", 0.02)
	histogram("pilot_proxy_queue_time", "", 0.01)
	histogram("pilot_pushcontext_init_seconds", "", 0.03)
	histogram("pilot_xds_push_time", `type="cds"`, 0.04)
	histogram("pilot_xds_send_time", "", 0.005)
	histogram("pilot_xds_config_size_bytes", `type="type.googleapis.com/envoy.config.cluster.v3.Cluster"`, 1e4)
	counter("pilot_total_xds_internal_errors", 0)
	if minor >= 16 {
		histogram("pilot_debounce_time", "", 0.11)
	}
	if minor < 26 {
		counter("pilot_xds_push_context_errors", 0)
	}
	if minor >= 24 {
		gauge("go_sched_gomaxprocs_threads", 2)
	}
	return out.String()
}

// Pages of every istiod since 1.12 tell the same; what a version does not count is missing, not zero.
func TestAssessIstiodVersions(t *testing.T) {
	for version, lacks := range map[string][]string{"1.12.9": {"debounce_mean", "cpu_process"}, "1.16.7": {"cpu_process"}, "1.20.8": {"cpu_process"}, "1.24.6": nil, "1.28.0": {"push_context_errors"}} {
		files := map[string]string{"a": istiodPage(version, 1000), "b": istiodPage(version, 1100)}
		a := fromFiles(t, Assessment{}, files, []string{"a", "b"})
		if a.Mesh.Istiod != version || a.WindowS != 100 {
			t.Errorf("%s: %q over %g s", version, a.Mesh.Istiod, a.WindowS)
		}
		for key, want := range map[string]float64{"xds_pushes": 5, "inbound_updates": 4, "push_triggers": 6, "services": 7, "xds_proxies": 3, "convergence_istiod_mean": 0.02, "queue_mean": 0.01, "push_context_mean": 0.03,
			"push_mean": 0.04, "config_bytes": 2e4, "cpu_process_cores": 0.25, "debounce_mean": 0.11, "cpu_process": 0.125, "push_context_errors": 0, "internal_errors": 0} {
			v, _ := a.Signals.Find(key)
			if slices.Contains(lacks, key) {
				if v.Status != signals.StatusMissing {
					t.Errorf("%s: %s is not missing: %+v", version, key, v)
				}
				continue
			}
			if v.Value == nil || math.Abs(*v.Value-want) > 0.01*want {
				t.Errorf("%s: %s, want %g: %+v", version, key, want, v)
			}
		}
	}
}

// The version is that of the build, or of pilot_info where the build has no tag.
func TestAssessIstiodVersion(t *testing.T) {
	for page, want := range map[string]string{
		`istio_build{component="pilot",tag="1.12.0"} 1` + "\n" + `pilot_info{version="1.12.0-1a2b3c-Clean"} 1`:   "1.12.0",
		`istio_build{component="pilot",tag="unknown"} 1` + "\n" + `pilot_info{version="1.31-beta.1-1a-Clean"} 1`: "1.31-beta.1",
		`pilot_info{version="1.13.2-1a2b3c-Clean"} 1`:                                                            "1.13.2",
	} {
		a := fromFiles(t, Assessment{}, map[string]string{"x": page + "\npilot_services 3\n"}, []string{"x"})
		if a.Mesh.Istiod != want {
			t.Errorf("%s: %q", page, a.Mesh.Istiod)
		}
	}
}

// A log of istiod is evidence, also beside other files.
func TestAssessLog(t *testing.T) {
	log := "2026-11-30T10:00:00.000000Z\tinfo\tads\tPush debounce stable[1] 3 for config Service/a/b and 1 more configs: 100ms since last change, 100ms since last push, full=true\n" +
		"2026-11-30T10:00:10.000000Z\twarn\tads\tADS:CDS: ACK ERROR a.b-1 Internal:x\n"
	a := fromFiles(t, Assessment{}, map[string]string{"x": log}, []string{"x"})
	if l := a.Log; l == nil || l.Rounds != 1 || l.Updates != 3 || l.Seconds != 10 || len(l.Problems) != 1 || assess.FileUnknown.In(a.Unknown) {
		t.Errorf("%+v, %v", a.Log, a.Unknown)
	}
}
