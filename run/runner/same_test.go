package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// measured returns a header with every field set.
func measured() record.Header {
	return record.Header{
		Lab: lab.KindCluster, Cluster: "5e1f", Observed: record.ObservedKubelet, Revision: "canary", Meshtrial: "devel-abc+changes", MeshtrialDigest: "sha256:0123456789abcdef",
		Machine: record.Machine{CPUModel: "EPYC", CPUs: 2, MemoryBytes: 24 << 30, Kernel: "6.1", OS: "Debian", Virtual: "KVM", ClockSource: "tsc", Governor: "performance",
			CgroupMode: "v2", Nodes: 3, Kubernetes: "v1.36.3", Remarks: []string{"busy"}, NodeArch: "amd64", ContainerRun: "containerd 1.7"},
		Components: []record.Component{
			{Name: "envoy", Version: "1.39.0", Source: "as the running sidecar reports"},
			{Name: "envoy", Version: "1.40.0", Digest: "sha256:aa", Source: "a wheel"},
			{Name: "istiod", Version: "1.31.0", Digest: "h1:bb", Source: "a module"},
			{Name: "linkerd-controller", Version: "edge", Source: "registry/controller:edge"},
		},
	}
}

func TestSame(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*record.Header)
		want   string // "": the same
	}{
		{"nothing", func(*record.Header) {}, ""},
		{"what a busy machine is told", func(h *record.Header) { h.Machine.Remarks = nil }, ""},
		{"as many nodes as pods came to lie on", func(h *record.Header) { h.Machine.Nodes = 2 }, ""},
		{"memory that the kernel leaves", func(h *record.Header) { h.Machine.MemoryBytes += 100 << 20 }, ""},
		{"a build of the same version", func(h *record.Header) { h.MeshtrialDigest = "sha256:fedcba9876543210" },
			"meshtrial was devel-abc+changes (build 0123456789ab) and is devel-abc+changes (build fedcba987654)"},
		{"another version", func(h *record.Header) { h.Meshtrial, h.MeshtrialDigest = "v8", "sha256:f" }, "meshtrial was devel-abc+changes and is v8"},
		{"another lab", func(h *record.Header) { h.Lab, h.Cluster = lab.KindLocal, "" }, "the lab was cluster and is local"},
		{"another revision", func(h *record.Header) { h.Revision = "stable" }, "the mesh's revision was canary and is stable"},
		{"another source of CPU", func(h *record.Header) { h.Observed = record.ObservedCgroup }, "the source of CPU and memory (--observe) was kubelet and is cgroup"},
		{"a source that is not known", func(h *record.Header) { h.Observed = "" }, ""},
		{"another cluster", func(h *record.Header) { h.Cluster = "77aa" }, "the cluster was 5e1f and is 77aa"},
		{"another Envoy", func(h *record.Header) { h.Components[0].Version = "1.41.0" }, "envoy was 1.39.0, 1.40.0 and is 1.41.0"},
		{"another build of Envoy", func(h *record.Header) { h.Components[1].Digest = "sha256:cc" }, "envoy 1.40.0 was a different build (aa) and is now cc"},
		{"another istiod", func(h *record.Header) { h.Components[2].Version = "1.32.0" }, "istiod was 1.31.0 and is 1.32.0"},
		{"the same tag of another registry", func(h *record.Header) { h.Components[3].Source = "mirror/controller:edge" },
			"linkerd-controller edge was from registry/controller:edge and is from mirror/controller:edge"},
		{"a digest where there was none", func(h *record.Header) { h.Components[3].Digest, h.Components[3].Source = "sha256:dd", "elsewhere" }, ""},
		{"one component of which the run says nothing", func(h *record.Header) {
			h.Components = append(h.Components, record.Component{Name: "runc", Version: "1"})
		}, ""},
		{"a mode that was off", func(h *record.Header) {
			h.Components = append(h.Components, record.Component{Name: "istiod's mode", Version: "on", Source: record.SourceOfMode})
		}, "istiod's mode was off and is on"},
		{"one component that is not there yet", func(h *record.Header) { h.Components = h.Components[2:] }, ""},
		{"the CPU", func(h *record.Header) { h.Machine.CPUModel = "Xeon" }, "the machine's CPU was EPYC and is Xeon"},
		{"CPUs", func(h *record.Header) { h.Machine.CPUs = 4 }, "its number of CPUs was 2 and is 4"},
		{"memory", func(h *record.Header) { h.Machine.MemoryBytes = 12 << 30 }, "its memory was 24.00 GiB and is 12.00 GiB"},
		{"kernel", func(h *record.Header) { h.Machine.Kernel = "6.2" }, "its kernel was 6.1 and is 6.2"},
		{"governor", func(h *record.Header) { h.Machine.Governor = "powersave" }, "its frequency governor was performance and is powersave"},
		{"Kubernetes", func(h *record.Header) { h.Machine.Kubernetes = "v1.37.0" }, "Kubernetes was v1.36.3 and is v1.37.0"},
		{"several", func(h *record.Header) { h.Meshtrial, h.MeshtrialDigest, h.Machine.CPUs = "v8", "sha256:f", 4 },
			"meshtrial was devel-abc+changes and is v8; its number of CPUs was 2 and is 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := measured()
			tt.change(&now)
			err := Same("runs/a", measured(), now)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if errs.Code(err) != errs.CodeUsage || !strings.HasSuffix(err.Error(), "made differently: "+tt.want) || !strings.HasPrefix(err.Error(), "run runs/a cannot be resumed") ||
				!strings.Contains(errs.Hint(err), "--out") {
				t.Errorf("%v, hint %q", err, errs.Hint(err))
			}
		})
	}
}

// If a run's component had a mode on, it must be on to resume the run.
func TestSameMode(t *testing.T) {
	was, now := measured(), measured()
	was.Components = append(was.Components, record.Component{Name: "istiod's mode", Version: "on", Source: record.SourceOfMode})
	if err := Same("a", was, was); err != nil {
		t.Error(err)
	}
	if err := Same("a", was, now); err == nil || !strings.HasSuffix(err.Error(), "istiod's mode was on and is off") {
		t.Error(err)
	}
}

// A user without permission does not know whether the cluster has something.
func TestSameOfTheCluster(t *testing.T) {
	header := func(version string) record.Header {
		h := measured()
		h.Components = append(h.Components, record.Component{Name: record.GatewayAPI, Version: version, Source: record.SourceOfCluster})
		return h
	}
	on, off := header("on"), header("off")
	for _, same := range [][2]record.Header{{on, on}, {measured(), off}, {measured(), on}, {on, measured()}, {off, measured()}} {
		if err := Same("a", same[0], same[1]); err != nil {
			t.Error(err)
		}
	}
	if err := Same("a", on, off); err == nil || !strings.HasSuffix(err.Error(), "made differently: the Gateway API was on and is off") {
		t.Error(err)
	}
}

// Values that one side lacks are no difference, whichever fields these are, and each text
// field that both sides have is compared.
func TestSameOfWhatIsKnown(t *testing.T) {
	texts := func(h *record.Header) (all []reflect.Value) {
		m := reflect.ValueOf(&h.Machine).Elem()
		for i := range m.NumField() {
			if m.Field(i).Kind() == reflect.String {
				all = append(all, m.Field(i))
			}
		}
		return append(all, reflect.ValueOf(&h.Lab).Elem(), reflect.ValueOf(&h.Cluster).Elem())
	}
	probe := measured()
	count := len(texts(&probe))
	rapid.Check(t, func(t *rapid.T) {
		was, now := measured(), measured()
		for _, h := range []*record.Header{&was, &now} {
			for _, field := range texts(h) {
				if rapid.Bool().Draw(t, "unknown") {
					field.SetString("")
				}
			}
			if rapid.Bool().Draw(t, "no components") {
				h.Components = nil
			}
		}
		must.OK(t, Same("a", was, now))
		i := rapid.IntRange(0, count-1).Draw(t, "field")
		a, b := texts(&was)[i], texts(&now)[i]
		both := a.String() != "" && b.String() != ""
		if b.String() != "" {
			b.SetString(b.String() + "x")
		}
		if err := Same("a", was, now); (err != nil) != both {
			t.Fatalf("field %d: %v, known on both sides: %v", i, err, both)
		}
	})
}

// A run is resumed only with the components that it was created with. Differences are
// reported before anything is deployed, and a rejected run is unchanged.
func TestResumeWithSomethingElse(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	open := func(resume bool, change func(*Options)) error {
		return reopen(t, out, func(o *Options) {
			o.Resume, o.Version, o.Digest, o.Components = resume, "v7", "sha256:07", []record.Component{{Name: "istiod", Version: "1"}}
			change(o)
		})
	}
	must.OK(t, open(false, func(*Options) {}))
	for what, change := range map[string]func(*Options){
		"meshtrial was v7 (build 07) and is v7 (build 08)": func(o *Options) { o.Digest = "sha256:08" },
		"the lab was local and is cluster":                 func(o *Options) { o.Lab = someCluster{} },
		"istiod was 1 and is 2":                            func(o *Options) { o.Components[0].Version = "2" },
	} {
		if err := open(true, change); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	if err := errors.Join(open(true, func(*Options) {}), open(true, func(o *Options) { o.Remarks = []string{"busy"} })); err != nil {
		t.Errorf("after it was refused: %v", err)
	}
	c, err := store.Read(out)
	if err != nil || c.Header.MeshtrialDigest != "sha256:07" || c.Header.Lab != lab.KindLocal {
		t.Errorf("%+v, %v", c.Header, err)
	}
}

// someCluster is a user's cluster at host.
type someCluster struct {
	noCluster
	host string
}

func (someCluster) Kind() string               { return lab.KindCluster }
func (c someCluster) RESTConfig() *rest.Config { return &rest.Config{Host: c.host} }

// A user's cluster is identified by its namespace kube-system, if that may be read.
func TestClusterID(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/kube-system" {
			status = http.StatusNotFound
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": "5e1f"}}`)
	}))
	defer server.Close()
	if id := clusterID(t.Context(), lab.KindCluster, someCluster{host: server.URL}); id != "5e1f" {
		t.Errorf("%q", id)
	}
	status = http.StatusForbidden
	for _, l := range []lab.Lab{noCluster{}, someCluster{host: server.URL}} {
		if id := clusterID(t.Context(), l.Kind(), l); id != "" {
			t.Errorf("%s: %q", l.Kind(), id)
		}
	}
}

// placed is a Stage on a node that describes itself.
type placed struct {
	script
	at   *site.Site
	pods []site.Pod
}

func (p *placed) Place() *site.Site            { return p.at }
func (p *placed) Pods() []site.Pod             { return p.pods }
func (p *placed) Remove(context.Context) error { return nil }

// The machine and the running sidecars are known only once pods exist. A run with trials is
// resumed only on the same ones; one without is described anew.
func TestDescribe(t *testing.T) {
	machine, envoy := record.Machine{CPUModel: "EPYC", CPUs: 2}, "1.40.0"
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { jsonhttp.Answer(w, machine) }))
	defer node.Close()
	s, out := studytest.Parse(t, studytest.ThreeCells), filepath.Join(t.TempDir(), "run")
	attempt := func(resume, measure bool) error {
		stage := &placed{pods: []site.Pod{{State: &mesh.ProxyState{Version: envoy}}, {}},
			at: &site.Site{Kube: fakecluster.New(), Observers: map[string]observe.Client{"n": {HTTPClient: node.Client(), BaseURL: node.URL}}}}
		r, _ := newRun(t, out, resume, s, stage)
		defer r.dir.Close()
		err := r.describe(t.Context(), stage)
		if err == nil && measure {
			err = r.blocks(t.Context())
		}
		return err
	}
	header := func() record.Header {
		c, err := store.Read(out)
		must.OK(t, err)
		return c.Header
	}
	must.OK(t, attempt(false, false))
	machine.CPUs = 4
	must.OK(t, attempt(true, true))
	if h := header(); h.Machine.CPUs != 4 || h.Machine.CPUModel != "EPYC" || len(h.Components) != 1 || h.Components[0].Version != "1.40.0" {
		t.Errorf("%+v", h)
	}
	for _, tt := range []struct {
		cpus  int
		envoy string
		want  string
	}{{2, "1.40.0", "its number of CPUs was 4 and is 2"}, {4, "1.41.0", "envoy was 1.40.0 and is 1.41.0"}} {
		machine.CPUs, envoy = tt.cpus, tt.envoy
		if err := attempt(true, true); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	machine.CPUs, envoy = 4, "1.40.0"
	if err := attempt(true, true); err != nil {
		t.Error(err)
	}
}

// Roles of another version of the program are rejected. Those that do not respond, and
// builds without a version, are not.
func TestSameBuild(t *testing.T) {
	observer := func(answer http.HandlerFunc) observe.Client {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		return observe.Client{HTTPClient: server.Client(), BaseURL: server.URL}
	}
	of := func(version string) observe.Client {
		mux := http.NewServeMux()
		jsonhttp.HandleVersion(mux, version)
		return observer(mux.ServeHTTP)
	}
	silent := of("v1")
	silent.BaseURL = "http://127.0.0.1:1"
	for name, c := range map[string]struct {
		build   string
		others  map[string]observe.Client
		loads   map[string]site.Versioned
		refused string
	}{
		"the same":        {"v1", map[string]observe.Client{"a": of("v1"), "b": of("v1")}, map[string]site.Versioned{"client": of("v1")}, ""},
		"another":         {"v1", map[string]observe.Client{"a": of("v1"), "b": of("v2")}, nil, "the observer on node b is v2, this is v1"},
		"another load":    {"v1", nil, map[string]site.Versioned{"client-1": of("v1"), "client-2": of("v2")}, "load pod client-2 is v2, this is v1"},
		"earlier":         {"v1", map[string]observe.Client{"a": observer(http.NotFound)}, nil, "the observer on node a is an earlier one, which does not say, this is v1"},
		"silent":          {"v1", map[string]observe.Client{"a": silent}, nil, ""},
		"beside a silent": {"v1", map[string]observe.Client{"a": silent, "b": of("v2")}, nil, "the observer on node b is v2, this is v1"},
		"unknown":         {"", map[string]observe.Client{"a": of("v2")}, nil, ""},
		"nobody":          {"v1", nil, nil, ""},
		"in trouble":      {"v1", map[string]observe.Client{"a": observer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })}, nil, ""},
	} {
		for kind, hint := range map[string]string{lab.KindLocal: "lab down", lab.KindCluster: "--image"} {
			err := sameBuild(t.Context(), kind, &site.Site{Observers: c.others, Loads: c.loads}, c.build)
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.refused != "" && (errs.Code(err) != errs.CodeUsage || !strings.Contains(fmt.Sprint(err), c.refused) || !strings.Contains(errs.Hint(err), hint)):
				t.Errorf("%s: %v, hint %q", name, err, errs.Hint(err))
			}
		}
	}
}

// Silent nodes time out together, so that many take no longer than one. The answers keep the
// order of the names, and a caller that stops early does not wait for the rest.
func TestAnswers(t *testing.T) {
	names := make([]string, 2*atOnce+1) // the first answers, and all others are silent
	for i := range names {
		names[i] = fmt.Sprintf("node-%03d", i)
	}
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, name string) string {
			if name != names[0] {
				<-ctx.Done()
			}
			return "of " + name
		}
		began := time.Now()
		var got []string
		for name, answer := range answers(t.Context(), names, silent) {
			if answer != "of "+name {
				t.Errorf("%s: %s", name, answer)
			}
			got = append(got, name)
		}
		if took := time.Since(began); took != 2*lookTime || !slices.Equal(got, names) {
			t.Errorf("%d answers in %v", len(got), took)
		}
		began = time.Now()
		for range answers(t.Context(), names, silent) {
			break
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the first answer was enough, and the rest took %v", took)
		}
	})
}

// If nodes differ, the run's machine is that of one of its pods' nodes. A run with trials is
// resumed if any node matches it, or one that a trial was on, whichever comes first.
func TestDescribeNodesThatDiffer(t *testing.T) {
	observer := func(m record.Machine) observe.Client {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { jsonhttp.Answer(w, m) }))
		t.Cleanup(server.Close)
		return observe.Client{HTTPClient: server.Client(), BaseURL: server.URL}
	}
	epyc := observer(record.Machine{CPUModel: "EPYC", NodeArch: "amd64", CPUs: 2, Kernel: "6.1"})
	xeon := observer(record.Machine{CPUModel: "Xeon", NodeArch: "amd64", CPUs: 4, Kernel: "6.1"})
	silent := observer(record.Machine{})
	silent.BaseURL = "http://127.0.0.1:1"
	s, out := studytest.Parse(t, studytest.ThreeCells), filepath.Join(t.TempDir(), "run")
	attempt := func(resume bool, on string, observers map[string]observe.Client, trials map[string]record.NodeAt) error {
		stage := &placed{pods: []site.Pod{{Node: on}}, at: &site.Site{Kube: fakecluster.New(), Observers: observers}}
		r, _ := newRun(t, out, resume, s, stage)
		defer r.dir.Close()
		for i := range r.trials {
			r.trials[i].Nodes = trials
		}
		err := r.describe(t.Context(), stage)
		if err == nil && !resume {
			err = r.blocks(t.Context())
		}
		return err
	}
	must.OK(t, attempt(false, "b", map[string]observe.Client{"a": xeon, "b": epyc}, nil))
	if c, err := store.Read(out); err != nil || c.Header.Machine.CPUModel != "EPYC" || c.Header.Machine.Nodes != 2 {
		t.Errorf("%+v, %v", c.Header.Machine, err)
	}
	for name, c := range map[string]struct {
		on        string
		observers map[string]observe.Client
		trials    map[string]record.NodeAt
		want      string
	}{
		"another node comes first":  {"0", map[string]observe.Client{"0": xeon, "b": epyc}, nil, ""},
		"its node is gone":          {"0", map[string]observe.Client{"0": xeon, "c": epyc}, nil, ""},
		"all of its kind are gone":  {"0", map[string]observe.Client{"0": xeon}, nil, "the machine's CPU was EPYC and is Xeon; its number of CPUs was 2 and is 4"},
		"of a kind that trials had": {"0", map[string]observe.Client{"0": xeon}, map[string]record.NodeAt{record.PartWorker: {Name: "a", Machine: "Xeon, amd64, 4 CPUs, Linux 6.1"}}, ""},
		"one does not answer":       {"0", map[string]observe.Client{"0": silent, "b": epyc}, nil, ""},
		"none answers":              {"0", map[string]observe.Client{"0": silent}, nil, "describe the machine: "},
	} {
		if err := attempt(true, c.on, c.observers, c.trials); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// With kubelets, the nodes of the run's trials are examined in addition to those of its
// pods, which are scheduled anew.
func TestDescribeNodesOfKubelets(t *testing.T) {
	node := func(name, kind, kernel string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelInstanceTypeStable: kind}}}
		n.Status.NodeInfo = corev1.NodeSystemInfo{Architecture: "amd64", KernelVersion: kernel}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		return n
	}
	r := &run{header: record.Header{Machine: record.Machine{CPUs: 2, Kernel: "6.1", NodeArch: "amd64"}}, trials: []record.Trial{{Nodes: map[string]record.NodeAt{record.PartWorker: {Name: "b", Machine: "m5, amd64, 2 CPUs, Linux 6.1"}}}}}
	for name, c := range map[string]struct {
		nodes  []runtime.Object
		kernel string
	}{
		"its trials' node is there": {[]runtime.Object{node("a", "c5", "6.2"), node("b", "m5", "6.1")}, "6.1"},
		"it is gone":                {[]runtime.Object{node("a", "c5", "6.2")}, "6.2"},
		"nothing may be read":       {nil, ""},
	} {
		at := &site.Site{Kube: fakecluster.New(c.nodes...), Kubelets: true}
		if m, err := r.machine(t.Context(), at, []site.Pod{{Node: "a"}}); err != nil || m.Kernel != c.kernel {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}
