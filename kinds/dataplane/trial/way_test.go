package trial

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/load/loadtest"
	workercontrol "github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// Proxies of the trial's nodes that its requests do not pass are separate parts, and so are their
// agents.
func TestBesideTheWay(t *testing.T) {
	on := func(name string) site.Pod {
		return site.Pod{UID: "on-" + name, Node: name, Containers: map[string]string{"proxy": "id-" + name}}
	}
	for _, c := range []struct {
		sidecars, client, server string
		beside                   []string
		parts                    map[string][]string // by node
	}{
		{study.SidecarsAmbient, "a", "b", nil, map[string][]string{"a": {record.PartClientNode, record.PartNodeAgent}, "b": {record.PartServerNode, record.PartNodeAgent}}},
		{study.SidecarsAmbient, "a", "a", nil, map[string][]string{"a": {record.PartNode, record.PartNodeAgent}}},
		{study.SidecarsNone, "a", "b", []string{"a", "b"}, map[string][]string{"a": {record.PartIdleNode, record.PartNodeAgent}, "b": {record.PartIdleNode, record.PartNodeAgent}}},
		{study.SidecarsNone, "a", "a", []string{"a"}, map[string][]string{"a": {record.PartIdleNode, record.PartNodeAgent}}},
	} {
		kube := fakecluster.New()
		d := &deployed{Site: &site.Site{Kube: kube, Kubelets: true}, onNodes: map[string]site.Pod{}}
		for _, node := range []string{"a", "b", "c"} {
			d.onNodes[node] = on(node)
			must.OK(t, kube.Tracker().Add(agentOn(node)))
		}
		trial := &trialRun{d: d, o: &runner.Options{Mesh: nodeMesh{}}, cell: record.Cell{study.FactorSidecars: c.sidecars}, server: &workerRole{pod: site.Pod{Node: c.server}}}
		must.OK(t, trial.setHands([]*loadRole{{pod: site.Pod{Node: c.client}}}))
		trial.setBeside()
		if got := slices.Sorted(maps.Keys(trial.beside)); !slices.Equal(got, c.beside) {
			t.Errorf("%+v: beside %v", c, got)
		}
		trial.findAgents(t.Context())
		trial.findTargets()
		for node, want := range c.parts {
			var got []string
			for _, target := range trial.targets[node] {
				if got = append(got, target.Name); target.MayEnd != slices.Contains(unpassed, target.Name) {
					t.Errorf("%+v: %+v", c, target)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: node %s has the parts %v, want %v", c, node, got, want)
			}
		}
		if len(trial.targets) != len(c.parts) {
			t.Errorf("%+v: targets %v", c, trial.targets)
		}
	}
}

// nodeMesh is a mesh of node proxies.
type nodeMesh struct{ none.Mesh }

func (nodeMesh) Proxies(place record.Place) mesh.Proxies {
	if place != record.PlaceNode {
		return mesh.Proxies{}
	}
	return mesh.Proxies{Containers: []string{"proxy"}, Agents: mesh.Agents{Namespace: "system", Selector: "app=agent", Containers: []string{"agent"}, Noun: "the node agent"}}
}

// agentOn returns the agent of a node.
func agentOn(node string) *corev1.Pod {
	pod := proxyOn(node, true)
	pod.Namespace, pod.Name, pod.Labels = "system", "agent-"+node, map[string]string{"app": "agent"}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", ContainerID: "id-" + node}}
	return pod
}

func (nodeMesh) Carried(rise map[string]float64, to mesh.Endpoint) record.Connections {
	return record.Connections{Opened: int64(rise["opened to "+to.Service])}
}

// The counters of proxies beside the way are in the evidence, and the connections that one on it
// carried are in the record.
func TestEvidenceOfNodes(t *testing.T) {
	plan := studytest.Plan(t, studytest.ThreeCells)
	stats := func(v float64) observe.ProxyStats {
		return observe.ProxyStats{Taken: time.Unix(100, 0), NoUptime: true, Counters: map[string]float64{"opened to server": v}}
	}
	read := func(on, beside float64) counters {
		return counters{proxies: map[string]observe.ProxyStats{record.PartNode: stats(on)}, beside: map[string]observe.ProxyStats{"c": stats(beside)}}
	}
	trial := &trialRun{o: &runner.Options{Study: plan.Study, Mesh: nodeMesh{}}, cell: plan.Cells[0], client: &loadRole{}, server: &workerRole{Workload: mesh.Workload{Name: "server"}, pod: site.Pod{Node: "c"}},
		spec: load.Spec{URL: "http://server:8080/", Protocol: "http1"}, beside: map[string]site.Pod{"c": {}}}
	out, sent := &record.Trial{}, loadtest.Result(load.Account{Scheduled: 1, Completed: 1}, 4, 0)
	sent.Intervals[0].BytesSent, sent.Intervals[0].BytesRead = 11, 7
	e := trial.evidence(out, sent, read(2, 5), read(6, 5))
	if got := e.Beside["c"]; got == nil || got.Rise["opened to server"] != 0 || len(trial.seen.Unread) != 0 {
		t.Errorf("beside %+v, unread %+v", e.Beside, trial.seen.Unread)
	}
	if got := out.Connections[record.PartNode]; got.Opened != 4 {
		t.Errorf("connections %+v", out.Connections)
	}
	if e.Wire == nil || *e.Wire != (mesh.Wire{Sent: 11, Read: 7}) {
		t.Errorf("on the wire %+v", e.Wire)
	}
	for _, spec := range []load.Spec{{URL: "https://server:8443/", Protocol: "http1"}, {URL: "http://server:8081/", Protocol: "http2"}, {URL: "grpc://server:8082", Protocol: "grpc"}} {
		trial.spec = spec
		if e := trial.evidence(out, sent, read(2, 5), read(6, 5)); !e.Wire.Bodies {
			t.Errorf("%s: frames and records are counted", spec.URL)
		}
	}
	// A restarted proxy has not reported what it passed on.
	e = trial.evidence(out, sent, read(2, 5), read(6, 4))
	if unread := trial.seen.Unread; len(e.Beside) != 0 || len(unread) != 1 || unread[0].Name != "counters-"+record.PartIdleNode {
		t.Errorf("beside %+v, unread %+v", e.Beside, unread)
	}
	// Nor has a replacement, whose counters happen not to have fallen.
	trial.seen.Unread, trial.anew = nil, map[string]error{"c": errors.New("restarted within the window")}
	e = trial.evidence(out, sent, read(2, 5), read(6, 5))
	if unread := trial.seen.Unread; len(e.Beside) != 0 || len(unread) != 1 || !strings.Contains(unread[0].Detail, "node c: restarted within the window") {
		t.Errorf("beside %+v, unread %+v", e.Beside, unread)
	}
	trial.anew = nil
	// Nor has one that does not answer, before or after. No request reaches nodes other than those
	// of the trial's pods, unless a gateway on its way is there.
	for i, silent := range []func(before, after counters){
		func(before, _ counters) { delete(before.beside, "c") },
		func(_, after counters) { delete(after.beside, "c") },
	} {
		before, after := read(2, 5), read(6, 5)
		silent(before, after)
		trial.seen.Unread = nil
		e = trial.evidence(out, sent, before, after)
		if unread := trial.seen.Unread; len(e.Beside) != 0 || len(unread) != 1 || unread[0].OK || !strings.Contains(unread[0].Detail, "node c: its proxy did not answer") {
			t.Errorf("%d: beside %+v, unread %+v", i, e.Beside, unread)
		}
		trial.seen.Unread, trial.server.pod.Node = nil, "d"
		if e = trial.evidence(out, sent, before, after); len(e.Beside) != 0 || len(trial.seen.Unread) > 0 {
			t.Errorf("%d, on a node without pods of the trial: beside %+v, unread %+v", i, e.Beside, trial.seen.Unread)
		}
		trial.proxies = map[string]site.Pod{record.PartGateway: {Node: "c"}}
		if e = trial.evidence(out, sent, before, after); len(e.Beside) != 0 || len(trial.seen.Unread) != 1 {
			t.Errorf("%d, on the node of a gateway: beside %+v, unread %+v", i, e.Beside, trial.seen.Unread)
		}
		trial.proxies, trial.server.pod.Node = nil, "c"
	}
}

// A proxy beside the way that was replaced before a trial is found again with only a brief wait.
// Until then the trial has the old one, which cannot answer, also on a node without a pod of the
// trial.
func TestRenewBeside(t *testing.T) {
	for name, c := range map[string]struct {
		server string // the node of its pod; the proxy is on node b
		now    func(*corev1.Pod)
		want   string // the container of the proxy that the trial has
		told   bool
	}{
		"it is still there":             {server: "b", now: func(*corev1.Pod) {}, want: "old"},
		"another is in its place":       {server: "b", now: func(p *corev1.Pod) { p.UID, p.Status.ContainerStatuses[0].ContainerID = "other", "new" }, want: "new"},
		"its container is another":      {server: "b", now: func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "new" }, want: "new"},
		"none is ready":                 {server: "b", now: func(p *corev1.Pod) { p.UID, p.Status.Conditions = "other", nil }, want: "old", told: true},
		"none is ready, on an idle one": {server: "a", now: func(p *corev1.Pod) { p.UID, p.Status.Conditions = "other", nil }, want: "old", told: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := proxyOn("b", true)
				pod.UID, pod.Status.ContainerStatuses = "one", []corev1.ContainerStatus{{Name: "proxy", ContainerID: "old"}}
				old := site.PodOf(pod)
				c.now(pod)
				var told []string
				d := &deployed{Site: &site.Site{Kube: fakecluster.New(pod), Dialer: lab.NewDialer(&rest.Config{}), Kubelets: true}, o: &runner.Options{Mesh: answeringMesh{}},
					onNodes: map[string]site.Pod{"b": old}, tell: func(e runner.Event) { told = append(told, e.Text) }}
				trial := &trialRun{d: d, o: d.o, server: &workerRole{pod: site.Pod{Node: c.server}}, beside: map[string]site.Pod{"b": old}}
				began, takes := time.Now(), time.Duration(0)
				if c.told {
					takes = idleWait
				}
				trial.renewBeside(t.Context())
				if took := time.Since(began); took != takes || (len(told) > 0) != c.told {
					t.Errorf("after %v, not %v, it tells %q", took, takes, told)
				}
				if got := trial.beside["b"].Containers["proxy"]; got != c.want || d.onNodes["b"].Containers["proxy"] != c.want || len(trial.beside) != len(d.onNodes) {
					t.Errorf("the trial has %q, of %v; want %q", got, d.onNodes, c.want)
				}
			})
		})
	}
}

// If the proxy of a node without a pod of the trial is replaced, and takes long to be ready, the
// next trial searches for it again. Until then its old container is queried, so that the trial
// reports that it lacks the figures of such proxies, and none of the others pass for all. The
// node's agent is kept.
func TestIdleProxyComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := site.New(threeNodes{}, answeringMesh{}, "r")
		must.OK(t, err)
		pod := proxyOn("c", false)
		pod.UID, pod.Status.ContainerStatuses = "other", []corev1.ContainerStatus{{Name: "proxy", ContainerID: "new"}}
		kube := fakecluster.New(pod, agentOn("c"))
		s.Kube, s.Observers["c"] = kube, observe.Client{HTTPClient: http.DefaultClient}
		d := &deployed{Site: s, o: &runner.Options{Mesh: answeringMesh{}}, tell: func(runner.Event) {},
			onNodes: map[string]site.Pod{"c": {UID: "one", Node: "c", Containers: map[string]string{"proxy": "old"}}}}
		for _, want := range []string{"old", "new"} {
			trial := &trialRun{d: d, o: d.o, server: &workerRole{pod: site.Pod{Node: "b"}}}
			trial.setBeside()
			trial.renewBeside(t.Context())
			trial.findAgents(t.Context())
			trial.findTargets()
			got := map[string]string{}
			for _, target := range trial.targets["c"] {
				got[target.Name] = target.ContainerID
			}
			if !maps.Equal(got, map[string]string{record.PartIdleNode: want, record.PartNodeAgent: "id-c"}) || len(trial.beside) != 1 || len(trial.seen.Unmeasured) > 0 {
				t.Errorf("the trial reads %v, beside it are %v, and it says %q; want %q", got, trial.beside, trial.seen.Unmeasured, want)
			}
			pod.Status.Conditions = proxyOn("c", true).Status.Conditions
			must.OK(t, must.Err(kube.CoreV1().Pods(pod.Namespace).Update(t.Context(), pod, metav1.UpdateOptions{})))
		}
	})
}

// A proxy beside the way that differs after the trial is not proven to have passed nothing on,
// although the new one's counters have not fallen, since there were none.
func TestNoteReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		now   func(*corev1.Pod)
		fails error
		want  string
	}{
		"it is still there":       {now: func(*corev1.Pod) {}},
		"another is in its place": {now: func(p *corev1.Pod) { p.UID = "other" }, want: "its proxy was replaced, or restarted, during the trial"},
		"its container is another": {now: func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "new" },
			want: "its proxy was replaced, or restarted, during the trial"},
		"nobody tells": {now: func(*corev1.Pod) {}, fails: errors.New("ask later"),
			want: "whether its proxy was replaced during the trial is unknown: list the proxies app=proxy: ask later"},
	} {
		pod := proxyOn("b", true)
		pod.UID, pod.Status.ContainerStatuses = "one", []corev1.ContainerStatus{{Name: "proxy", ContainerID: "old"}}
		trial := &trialRun{o: &runner.Options{Mesh: answeringMesh{}}, beside: map[string]site.Pod{"b": site.PodOf(pod)}}
		c.now(pod)
		kube := fakecluster.New(pod)
		kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return c.fails != nil, nil, c.fails })
		trial.d = &deployed{Site: &site.Site{Kube: kube}}
		trial.noteReplaced(t.Context())
		if got := trial.anew["b"]; len(trial.anew) > 1 || (got == nil) != (c.want == "") || got != nil && got.Error() != c.want {
			t.Errorf("%s: %v, want %q", name, trial.anew, c.want)
		}
	}
}

// answeringMesh is a mesh of node proxies that all answer.
type answeringMesh struct{ nodeMesh }

func (m answeringMesh) Proxies(place record.Place) mesh.Proxies {
	proxies := m.nodeMesh.Proxies(place)
	proxies.Namespace, proxies.Selector = "mesh", "app=proxy"
	proxies.Admin = func(*http.Client) mesh.Admin { return answeringProxy{} }
	return proxies
}

// answeringProxy reports its identity.
type answeringProxy struct{ mesh.Admin }

func (answeringProxy) Version(context.Context) (string, error) { return "1", nil }

// silentProxy answers nothing.
type silentProxy struct{ mesh.Admin }

func (silentProxy) Stats(context.Context, string) (observe.ProxyStats, error) {
	return observe.ProxyStats{}, errors.New("refused")
}

// hangingProxy never answers.
type hangingProxy struct{ mesh.Admin }

func (hangingProxy) Stats(ctx context.Context, _ string) (observe.ProxyStats, error) {
	<-ctx.Done()
	return observe.ProxyStats{}, context.Cause(ctx)
}

// The wait for a hanging proxy beside the way is limited.
func TestHangingProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})}
		trial := &trialRun{o: &runner.Options{Mesh: nodeMesh{}}, server: &workerRole{api: workercontrol.Client{HTTPClient: answers, BaseURL: "http://worker"}},
			beside: map[string]site.Pod{"c": {Proxy: hangingProxy{}}, "d": {Proxy: hangingProxy{}}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if c, err := trial.count(ctx); err != nil || len(c.beside) != 0 || time.Since(began) != idleWait {
			t.Errorf("%+v, %v, after %v", c.beside, err, time.Since(began))
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A proxy beside the way that does not answer does not end a trial; one on the way does.
func TestSilentProxies(t *testing.T) {
	worker := served(t, http.HandlerFunc(counting))
	silent := map[string]site.Pod{"c": {Proxy: silentProxy{}}}
	trial := &trialRun{o: &runner.Options{Mesh: nodeMesh{}}, server: &workerRole{api: workercontrol.Client{BaseURL: worker.URL}}, beside: silent}
	if c, err := trial.count(t.Context()); err != nil || len(c.beside) != 0 {
		t.Errorf("beside the way: %+v, %v", c.beside, err)
	}
	trial.proxies = map[string]site.Pod{record.PartNode: {Proxy: silentProxy{}}}
	if _, err := trial.count(t.Context()); err == nil || !strings.Contains(err.Error(), "counters of the node's proxy: refused") {
		t.Errorf("on the way: %v", err)
	}
}

// proxyOn returns a mesh's pod on a node, ready or not.
func proxyOn(node string, ready bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "mesh", Name: "proxy", Labels: map[string]string{"app": "proxy"}}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}}}
}

// A proxy that may become ready is awaited, and the final error says what was wrong with it. Errors
// that waiting does not fix are returned at once.
func TestFindWaits(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("ask an administrator"))
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		lists func(looks int) error
		takes time.Duration
		fails string
	}{
		"ready":      {pod: proxyOn("seen", true)},
		"not ready":  {pod: proxyOn("seen", false), takes: site.ReadyTimeout, fails: "no proxy app=proxy is ready on node seen: proxy: Running: it is over"},
		"forbidden":  {pod: proxyOn("seen", true), lists: func(int) error { return forbidden }, fails: "ask an administrator"},
		"unobserved": {pod: proxyOn("unseen", true), fails: "the proxy proxy is on node unseen: no observer runs there"},
		"passing":    {pod: proxyOn("seen", true), lists: func(looks int) error { return map[int]error{1: errors.New("no leader")}[looks] }, takes: toldLook},
		"hanging": {pod: proxyOn("seen", true), takes: 2 * site.ReadyTimeout, fails: "list the proxies app=proxy: no leader: it is over", lists: func(looks int) error {
			if looks == 1 {
				return errors.New("no leader")
			}
			time.Sleep(2*site.ReadyTimeout - toldLook)
			return context.DeadlineExceeded
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), site.ReadyTimeout, errors.New("it is over"))
				defer cancel()
				kube, looks := fakecluster.New(tt.pod), 0
				kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					looks++
					if tt.lists == nil {
						return false, nil, nil
					}
					err := tt.lists(looks)
					return err != nil, nil, err
				})
				d := &deployed{o: &runner.Options{Mesh: nodeMesh{}}, Site: &site.Site{Kube: kube, Observers: map[string]observe.Client{"seen": {HTTPClient: http.DefaultClient}}}}
				into, began := map[string]site.Pod{}, time.Now()
				err := d.find(ctx, into, "key", record.PlaceNode, mesh.Proxies{Namespace: "mesh", Selector: "app=proxy"}, tt.pod.Spec.NodeName)
				if took := time.Since(began); took != tt.takes {
					t.Errorf("took %v, want %v", took, tt.takes)
				}
				if _, found := into["key"]; found != (tt.fails == "") || (err == nil) != found || err != nil && !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("found %v, %v; want %q", into, err, tt.fails)
				}
			})
		})
	}
}

// threeNodes is a lab of three nodes on this machine.
type threeNodes struct{ lab.Lab }

func (threeNodes) RESTConfig() *rest.Config { return &rest.Config{} }
func (threeNodes) Process() int             { return 1 }
func (threeNodes) Size() int                { return 3 }

// A lab node without a pod of the run is searched briefly, once for all cells: its proxy may have
// died with it, and no request passes it. Proxies on the way are awaited.
func TestFindOnNodes(t *testing.T) {
	for dead, takes := range map[string]time.Duration{"": 0, "c": idleWait, "b": site.ReadyTimeout} {
		t.Run(dead, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := site.New(threeNodes{}, nodeMesh{}, "r")
				must.OK(t, err)
				kube, want := fakecluster.New(), []string{}
				s.Kube = kube
				for _, node := range []string{"a", "b", "c"} {
					pod := proxyOn(node, node != dead)
					pod.Name = "on-" + node
					must.OK(t, kube.Tracker().Add(pod))
					s.Observers[node] = observe.Client{HTTPClient: http.DefaultClient}
					if node != dead {
						want = append(want, node)
					}
				}
				var told []string
				d := &deployed{Site: s, o: &runner.Options{Mesh: nodeMesh{}}, tell: func(e runner.Event) { told = append(told, e.Text) },
					topology: topology{cells: []record.Cell{{study.FactorSidecars: study.SidecarsAmbient, study.FactorPayload: "1KiB"}, {study.FactorSidecars: study.SidecarsAmbient}}},
					loads:    map[dataplane.Variant][]*loadRole{{}: {{pod: site.Pod{Node: "a"}}}}, workers: map[dataplane.Variant]*workerRole{{}: {pod: site.Pod{Node: "b"}}}}
				began := time.Now()
				err = d.findShared(t.Context())
				if took := time.Since(began); took != takes {
					t.Errorf("took %v, want %v", took, takes)
				}
				if dead == "b" {
					if err == nil || !strings.Contains(err.Error(), "is ready on node b") {
						t.Errorf("one on the way: %v", err)
					}
					return
				}
				if got := slices.Sorted(maps.Keys(d.onNodes)); err != nil || !slices.Equal(got, want) {
					t.Errorf("proxies of %v, want %v: %v", got, want, err)
				}
				if dead == "" && len(told) > 0 || dead == "c" && (len(told) != 1 || !strings.Contains(told[0], "the mesh's proxy on node c is not measured: no proxy  is ready on node c")) {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

// Agents of a trial's nodes are searched for without waiting: no request depends on them. If one is
// missing the trial says so, and omits the others.
func TestFindAgents(t *testing.T) {
	redirected := site.Pod{Node: "b", Redirected: true}
	for name, c := range map[string]struct {
		agents  []string // nodes
		onNodes []string
		server  site.Pod
		want    []string
		lacks   string
	}{
		"proxies on nodes":        {agents: []string{"a", "b", "c"}, onNodes: []string{"a", "b", "c"}, server: site.Pod{Node: "b"}, want: []string{"a", "b"}},
		"one node has no proxy":   {agents: []string{"a"}, onNodes: []string{"a"}, server: site.Pod{Node: "b"}, want: []string{"a"}},
		"one is not there":        {agents: []string{"b"}, onNodes: []string{"a", "b"}, server: site.Pod{Node: "b"}, lacks: "no pod app=agent is ready on node a"},
		"none":                    {onNodes: []string{"a", "b"}, server: site.Pod{Node: "b"}, lacks: "namespace system has no pod app=agent"},
		"they lead requests":      {agents: []string{"a", "b"}, server: redirected, want: []string{"a", "b"}},
		"they do, from elsewhere": {server: redirected, lacks: "namespace system has no pod app=agent"},
		"nobody needs them":       {agents: []string{"a", "b"}, server: site.Pod{Node: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube, server := fakecluster.New(), &workerRole{pod: c.server}
				for _, node := range c.agents {
					must.OK(t, kube.Tracker().Add(agentOn(node)))
				}
				d := &deployed{Site: &site.Site{Kube: kube, Kubelets: true}, onNodes: map[string]site.Pod{}, workers: map[dataplane.Variant]*workerRole{{}: server}}
				for _, node := range c.onNodes {
					d.onNodes[node] = site.Pod{Node: node}
				}
				trial, began := &trialRun{d: d, o: &runner.Options{Mesh: nodeMesh{}}, server: server, hands: []*hand{{loadRole: &loadRole{pod: site.Pod{Node: "a"}}}}}, time.Now()
				trial.findAgents(t.Context())
				if got := slices.Sorted(maps.Keys(trial.agents)); !slices.Equal(got, c.want) || time.Since(began) > 0 {
					t.Errorf("found those of %q after %v, want %q", got, time.Since(began), c.want)
				}
				said := strings.Join(trial.seen.Unmeasured, "; ")
				if (said == "") != (c.lacks == "") || c.lacks != "" && !strings.HasPrefix(said, "CPU and memory of the node agent, which no request passes, were not measured: "+c.lacks) {
					t.Errorf("it says %q, want %q", said, c.lacks)
				}
				if got := trial.agentServes(); got != c.server.Redirected {
					t.Errorf("the trial says that agents lead its requests: %v", got)
				}
			})
		})
	}
}
