package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// countingMesh has proxies with identical counts.
type countingMesh struct {
	mesh.Mesh
	counters func() map[string]float64
}

func (m countingMesh) Proxies(place record.Place) mesh.Proxies {
	proxies := m.Mesh.Proxies(place)
	proxies.Admin = func(*http.Client) mesh.Admin { return countingProxy{counters: m.counters()} }
	return proxies
}

// Servers that steps move to an unused node have the ztunnel there, which had carried others'
// connections: it counts from then on.
func TestArrivals(t *testing.T) {
	scene, bytes := graphScene(t, "{front: {calls: [{to: back}]}, back: {}}"), 1000.0
	scene.mesh = countingMesh{scene.mesh, func() map[string]float64 {
		all := map[string]float64{}
		for _, service := range []string{"front", "back"} {
			for _, reporter := range []string{"source", "destination"} {
				series(all, scene.namespace, service, reporter, "mutual_tls", 1, bytes/2)
			}
		}
		return all
	}}
	ztunnel := func(name, node string) *corev1.Pod {
		pod := nodeProxy(name, node, true)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: scene.mesh.Proxies(record.PlaceNode).Containers[0], ContainerID: "1"}}
		return pod
	}
	at := &site.Site{Kube: fakecluster.New(ztunnel("x", "one"), ztunnel("y", "two"), ztunnel("z", "three")), Dialer: lab.NewDialer(&rest.Config{}), Kubelets: true}
	resides := func(name, service, node string) *resident {
		return &resident{uid: name, ScenarioPod: record.ScenarioPod{Name: name, Service: service, Node: node}}
	}
	trial := &scenarioTrial{stage: &stage{Site: at, say: func(string, ...any) {}}, scene: scene, zero: time.Now(), census: &census{pods: map[string]*resident{}},
		scribe: &scribe{book: ledger.New(ledger.Options{}), served: map[string]int64{}}, looks: &looks{last: map[string]usage{}}}
	trial.clients = &clients{all: []*client{{resident: resides("c", roleClients, "one")}}}
	trial.timeline.Duration = time.Hour
	for _, r := range []*resident{resides("c", roleClients, "one"), resides("f", "front", "one"), resides("b1", "back", "two")} {
		trial.census.pods[r.uid] = r
	}
	if trial.shared.nodes = trial.meshNodes(); !slices.Equal(trial.shared.nodes, []string{"one", "two"}) {
		t.Fatalf("pods of the mesh are on %q", trial.shared.nodes)
	}
	pods, err := trial.present(t.Context())
	must.OK(t, err)
	began, err := trial.ask(t.Context(), pods)
	must.OK(t, err)
	trial.shared.before, trial.shared.began = began.together(), began.byProcess()

	bytes = 5000
	trial.noteArrivals(t.Context())
	if got := trial.shared.on(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("nobody moved, and there are %q", got)
	}
	trial.census.pods["b1"].leaving = true
	trial.census.pods["b2"] = resides("b2", "back", "three")
	trial.census.pods["b3"] = resides("b3", "back", "four") // which has no ztunnel yet
	for range 2 {
		trial.noteArrivals(t.Context())
	}
	if got := trial.shared.on(); !slices.Equal(got, []string{"one", "three", "two"}) {
		t.Fatalf("a server moved, and there are %q", got)
	}
	const sum = 2*1000 + 5000 // front's on the client's side, once each
	if got := mesh.SumSeries(trial.shared.before[record.PartNode], "istio_tcp_sent_bytes_total", map[string]string{"reporter": "source", "destination_workload": "front"}) * 2; got != sum {
		t.Errorf("counted before: %g bytes, want %d", got, sum)
	}

	end := trial.zero.Add(trial.timeline.Duration).UnixNano()
	for _, pod := range []string{"f", "b2"} {
		trial.scribe.worked(ledger.WorkerEntry{Pod: pod, StartNS: end - 1e9, Ended: ledger.EndAnswered, Status: 200})
	}
	after := func() (ok bool, detail string) {
		trial.evidence.Carried = nil
		must.OK(t, trial.checkAfterwards(t.Context(), outcome{answered: []int64{end - 1e9}}))
		for _, c := range trial.evidence.Carried {
			if c.Name == "back-server-ztunnel-bytes-afterwards" {
				return c.OK, c.Detail
			} else if !c.OK {
				t.Errorf("%s: %s", c.Name, c.Detail)
			}
		}
		return false, "not asked"
	}
	if ok, detail := after(); ok || !strings.Contains(detail, "on node three") {
		t.Errorf("the server's new ztunnel carried nothing since it came: %v, %s", ok, detail)
	}
	bytes = 5100
	if ok, detail := after(); !ok || !strings.Contains(detail, "on node three") {
		t.Errorf("the server's new ztunnel carried its requests: %v, %s", ok, detail)
	}

	unasked := func() string {
		trial.noteArrivals(t.Context())
		trial.evidence.Carried = nil
		must.OK(t, trial.checkAfterwards(t.Context(), outcome{answered: []int64{end - 1e9}}))
		seen := verdict.Evidence{Collected: &verdict.Collected{Missed: trial.unasked()}}
		var said []string
		for _, c := range append(trial.evidence.Carried, verdict.Of(record.Trial{Scenario: &record.Scenario{}}, nil, seen, nil).Checks...) {
			if !c.OK && (c.Name == "looks" || strings.HasSuffix(c.Name, afterwards)) {
				said = append(said, c.Name+": "+c.Detail)
			}
		}
		return strings.Join(said, "\n")
	}
	if said := unasked(); said != "" {
		t.Errorf("no pod on node four has been ready, and of its ztunnel is said: %s", said)
	}
	trial.census.pods["b3"].ReadyNS = time.Now().Add(-2 * time.Second).UnixNano()
	for range 2 {
		if said := unasked(); said != "" {
			t.Errorf("a pod on node four has been ready for two seconds, and of its ztunnel is said: %s", said)
		}
	}
	trial.census.pods["b3"].ReadyNS = time.Now().Add(-time.Minute).UnixNano()
	if said := unasked(); !strings.HasPrefix(said, "looks: steps brought pods to node four") || !strings.Contains(said, "there is no such pod") || strings.Contains(said, "\n") {
		t.Errorf("requests may have come to node four, whose ztunnel could not be asked: %q", said)
	}
	create := func(pod *corev1.Pod) {
		must.OK(t, must.Err(at.Kube.CoreV1().Pods("istio-system").Create(t.Context(), pod, metav1.CreateOptions{})))
	}
	create(ztunnel("v", "four"))
	if said := unasked(); !strings.HasPrefix(said, "looks: steps brought pods to node four") || !slices.Contains(trial.shared.on(), "four") {
		t.Errorf("node four's ztunnel answers after a minute, and of it is said: %q", said)
	}

	silent := func() []string { return slices.Sorted(maps.Keys(trial.shared.silent)) }
	for pod, node := range map[string]string{"b5": "five", "b6": "six"} {
		trial.census.pods[pod] = resides(pod, "back", node)
		trial.census.pods[pod].ReadyNS = time.Now().Add(-2 * time.Second).UnixNano()
	}
	if trial.noteArrivals(t.Context()); !slices.Equal(silent(), []string{"five", "six"}) {
		t.Errorf("no answer from nodes five and six, but from %q", silent())
	}
	trial.zero = time.Now().Add(lately - trial.timeline.Duration)
	trial.census.pods["b4"] = resides("b4", "back", "two-more")
	create(ztunnel("w", "two-more"))
	create(ztunnel("u", "five"))
	trial.noteArrivals(t.Context())
	if got := trial.shared.on(); len(got) != 4 {
		t.Errorf("noted when the last requests flow: %q", got)
	}
	if !slices.Equal(silent(), []string{"six"}) {
		t.Errorf("when the last requests flow node five answers and six does not, of %q", silent())
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	at.Kube.(fakecluster.Cluster).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, done.Err()
	})
	if trial.noteArrivals(done); !strings.Contains(fmt.Sprint(trial.shared.silent["six"].err), "there is no such pod") {
		t.Errorf("the end of looking passes for why node six is silent: %v", trial.shared.silent["six"].err)
	}
	trial.zero = time.Now().Add(-time.Second - trial.timeline.Duration)
	create(ztunnel("t", "six"))
	if trial.noteArrivals(t.Context()); !slices.Equal(silent(), []string{"six"}) {
		t.Errorf("what node six answers after the timeline is of no account: %q", silent())
	}
}

// The time for which a node's proxy did not answer is known, even if it answered in the end or pods
// left the node: while a pod there was ready, and until the end of the timeline.
func TestSilences(t *testing.T) {
	mute := errors.New("nobody answers")
	type look struct {
		at    float64   // seconds into the timeline
		ready []float64 // since when each pod on the node was ready, 0: not yet
		err   error
	}
	for name, c := range map[string]struct {
		looks []look
		want  string
	}{
		"asked in time":      {[]look{{11, []float64{10.5}, nil}}, ""},
		"an answer, late":    {[]look{{11, []float64{10}, mute}, {12, []float64{10}, mute}, {38, []float64{10, 0}, nil}}, "10-38 nobody answers"},
		"a look before hung": {[]look{{9, []float64{0}, mute}, {20, []float64{10}, nil}}, "10-20 the look before took too long"},
		"none until the end": {[]look{{39, []float64{38}, mute}, {42.5, []float64{38}, mute}}, "38-45 nobody answers"},
		"empty in between":   {[]look{{6, []float64{5}, mute}, {7, nil, nil}, {41, []float64{40.5}, mute}, {42, []float64{40.5}, nil}}, "5-6 nobody answers, 40.5-42 nobody answers"},
		"others come":        {[]look{{6, []float64{5}, mute}, {7, []float64{0}, mute}, {40, []float64{39}, mute}, {41, []float64{39}, nil}}, "5-6 nobody answers, 39-41 nobody answers"},
		"an answer behind":   {[]look{{44, []float64{40}, mute}, {45.5, []float64{40}, nil}}, "40-45 nobody answers"},
		"nobody was ready":   {[]look{{6, []float64{0}, mute}, {44, []float64{0, 0}, mute}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trial := &scenarioTrial{zero: time.Now()}
				trial.timeline.Duration = 45 * time.Second
				at := func(seconds float64) time.Time { return trial.zero.Add(time.Duration(seconds * 1e9)) }
				for _, one := range c.looks {
					time.Sleep(time.Until(at(one.at)))
					var pods []*resident
					for _, ready := range one.ready {
						r := &resident{}
						if ready > 0 {
							r.ReadyNS = at(ready).UnixNano()
						}
						pods = append(pods, r)
					}
					trial.shared.endSilences(map[string][]*resident{"four": pods})
					if len(pods) > 0 {
						trial.shared.noteSilence("four", pods, one.err)
					}
				}
				time.Sleep(time.Until(at(60)))
				var got []string
				for _, m := range trial.unasked() {
					after := func(ns int64) float64 { return time.Unix(0, ns).Sub(trial.zero).Seconds() }
					_, why, _ := strings.Cut(m.Error, "is known: ")
					got = append(got, fmt.Sprintf("%g-%g %s", after(m.SinceNS), after(m.AtNS), why))
				}
				if got := strings.Join(got, ", "); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

// The earlier usage of a ztunnel that served other pods on its node is not the trial's; that of one
// created during the trial is.
func TestArrivedUsage(t *testing.T) {
	trial := sharedTrial(fakecluster.New())
	trial.shared.before = risesOf{}
	trial.shared.nodes = []string{"one", "two"}
	trial.arrived("three", site.Pod{UID: "stood", Node: "three"}, nil)
	l := &looks{t: trial, first: map[string]usage{}, last: map[string]usage{}}
	for _, total := range []uint64{7e9, 8e9} {
		sample := observe.Sample{CPU: observe.CPUSample{TotalNS: total, UserNS: total}}
		l.add(observe.Snapshot{Targets: map[string]observe.Sample{"stood": sample, "fresh": sample}}, map[string]string{"stood": record.PartNode, "fresh": record.PartWaypoint})
	}
	cpu := l.cpu()
	if stood, fresh := cpu[record.PartNode].TotalS(), cpu[record.PartWaypoint].TotalS(); stood != 1 || fresh != 8 {
		t.Errorf("used %g s and %g s, want 1 and 8", stood, fresh)
	}
	trial.looks = &looks{t: trial, nodes: map[string]bool{"one": true}, machine: [2]map[string]observe.MachineSample{{}, {}}}
	for i, after := range []time.Duration{-30 * time.Second, 15 * time.Second} {
		trial.looks.machine[i]["one"] = observe.MachineSample{AtUnixNS: trial.shared.came["three"] + after.Nanoseconds()}
	}
	if got := trial.meanProxies(); math.Abs(got-(2+1.0/3)) > 1e-9 {
		t.Errorf("CPU of %g proxies was counted, want 2 1/3", got)
	}
}

// Version implements mesh.Admin.
func (countingProxy) Version(context.Context) (string, error) { return "1.31.0", nil }
