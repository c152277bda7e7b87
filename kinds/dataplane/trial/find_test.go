package trial

import (
	"context"
	"errors"
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

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

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
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("ask somebody"))
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		lists func(looks int) error
		takes time.Duration
		fails string
	}{
		"ready":      {pod: proxyOn("seen", true)},
		"not ready":  {pod: proxyOn("seen", false), takes: site.ReadyTimeout, fails: "no proxy app=proxy is ready on node seen: proxy: Running: it is over"},
		"forbidden":  {pod: proxyOn("seen", true), lists: func(int) error { return forbidden }, fails: "ask somebody"},
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

// A trial records where its pods ran, and the proxies on its way that are not bound to a pod's
// node.
func TestOn(t *testing.T) {
	at := map[string]record.NodeAt{"a": {Name: "a"}, "b": {Name: "b"}, "c": {Name: "c", Zone: "x"}}
	trial := &trialRun{d: &deployed{at: at}, client: &loadRole{pod: site.Pod{Node: "a"}}, server: &workerRole{pod: site.Pod{Node: "b"}},
		proxies: map[string]site.Pod{record.PartClientNode: {Node: "a"}, record.PartWaypoint: {Node: "c"}, record.PartServerNode: {Node: "b"}}}
	want := map[string]record.NodeAt{record.PartGenerator: at["a"], record.PartWorker: at["b"], record.PartWaypoint: at["c"]}
	if got := trial.on(); !maps.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
