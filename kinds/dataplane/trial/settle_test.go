package trial

import (
	"context"
	"errors"
	neturl "net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func TestAwaitQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		const told = 7 * time.Second // the last message to a sidecar, with one every second until then
		read := func(context.Context) (float64, error) {
			return float64(min(time.Since(begin), told) / time.Second), nil
		}
		unproved := func(context.Context) bool { return false }
		must.OK(t, awaitQuiet(t.Context(), read, unproved))
		if took := time.Since(begin); took < told+toldQuiet || took > told+toldQuiet+2*toldLook {
			t.Errorf("quiet after %v, told until %v", took, told)
		}
		gone := errors.New("gone")
		if err := awaitQuiet(t.Context(), func(context.Context) (float64, error) { return 0, gone }, unproved); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		never := 0.0
		if err := awaitQuiet(ctx, func(context.Context) (float64, error) { never++; return never, nil }, unproved); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// Proof shortens the wait if it comes after the last message, and not if it comes before.
func TestAwaitProof(t *testing.T) {
	for _, c := range []struct{ told, proved, want time.Duration }{
		{0, 0, toldProved}, {7 * time.Second, 0, 7*time.Second + toldProved}, {0, time.Second, time.Second}, {0, time.Hour, toldQuiet},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			read := func(context.Context) (float64, error) {
				return float64(min(time.Since(begin), c.told) / (100 * time.Millisecond)), nil
			}
			must.OK(t, awaitQuiet(t.Context(), read, func(context.Context) bool { return time.Since(begin) >= c.proved }))
			if took := time.Since(begin); took < c.want || took > c.want+2*toldLook {
				t.Errorf("told until %v, proved after %v: waited %v, not %v", c.told, c.proved, took, c.want)
			}
		})
	}
}

// sidecar responds with the endpoints that it knows.
type sidecar struct {
	mesh.Admin
	answer string
}

func (s sidecar) Get(context.Context, string, neturl.Values) ([]byte, error) {
	if s.answer == "" {
		return nil, errors.New("refused")
	}
	return []byte(s.answer), nil
}

// Each sidecar must know the pods of all present servers, and no others. A node proxy, which is not
// queried, shows nothing.
func TestHaveServers(t *testing.T) {
	knows := func(addresses map[string][]string) string {
		var clusters []string
		for service, known := range addresses {
			var hosts []string
			for _, a := range known {
				hosts = append(hosts, `{"address":{"socket_address":{"address":"`+a+`","port_value":8080}}}`)
			}
			clusters = append(clusters, `{"name":"outbound|8080||`+service+`.n.svc.cluster.local","host_statuses":[`+strings.Join(hosts, ",")+`]}`)
		}
		return `{"cluster_statuses":[` + strings.Join(clusters, ",") + `]}`
	}
	one, two := dataplane.Variant{}, dataplane.Variant{Sidecar: true}
	both := knows(map[string][]string{"one": {"10.0.0.1"}, "two": {"10.0.0.2"}})
	for _, c := range []struct {
		name           string
		client, server string
		want           bool
	}{
		{"both", both, both, true},
		{"one with an empty Service", knows(map[string][]string{"one": {"10.0.0.1"}, "two": nil}), both, false},
		{"the pod before", both, knows(map[string][]string{"one": {"10.0.0.9"}, "two": {"10.0.0.2"}}), false},
		{"one that cannot be asked", "", both, false},
		{"one that says nothing", "x", both, false},
	} {
		d := &deployed{
			Site: &site.Site{Namespace: "n"}, o: &runner.Options{Mesh: &istio.Mesh{}},
			topology: topology{servers: map[dataplane.Variant]mesh.Workload{one: {Name: "one"}, two: {Name: "two"}}},
			loads:    map[dataplane.Variant][]*loadRole{two: {{pod: site.Pod{Proxy: sidecar{answer: c.client}}}}, one: {{pod: site.Pod{}}}},
			workers: map[dataplane.Variant]*workerRole{one: {pod: site.Pod{Address: "10.0.0.1"}},
				two: {pod: site.Pod{Address: "10.0.0.2", Proxy: sidecar{answer: c.server}}}},
		}
		if got := d.haveServers(t.Context()); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		d.onNodes = map[string]site.Pod{"a": {}}
		if d.haveServers(t.Context()) {
			t.Errorf("%s, beside a proxy on a node: proved", c.name)
		}
	}
}

func TestAwaitEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no, yes := false, true
		slice := func(name string, ready *bool) *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "server"}},
				Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
			}
		}
		kube, begin := fakecluster.New(slice("a", &no), slice("b", nil)), time.Now()
		time.AfterFunc(3*time.Second, func() { kube.Tracker().Add(slice("c", &yes)) })
		looks := 0
		kube.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
			looks++
			return looks == 1, nil, apierrors.NewServiceUnavailable("the API server is busy for a moment")
		})
		d := &deployed{
			Site:     &site.Site{Kube: kube, Namespace: "n"},
			topology: topology{servers: map[dataplane.Variant]mesh.Workload{{}: {Name: "server"}}},
		}
		must.OK(t, d.awaitEndpoints(t.Context()))
		if took := time.Since(begin); took < 3*time.Second || took > 3*time.Second+toldLook {
			t.Errorf("after %v", took)
		}
	})
}

// Endpoints of former pods delay readiness until they are gone.
func TestHasReady(t *testing.T) {
	yes, no := true, false
	of := func(uid types.UID, ready *bool) discoveryv1.Endpoint {
		e := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: ready}}
		if uid != "" {
			e.TargetRef = &corev1.ObjectReference{UID: uid}
		}
		return e
	}
	for _, c := range []struct {
		name, uid string
		endpoints []discoveryv1.Endpoint
		want      bool
	}{
		{"none", "new", nil, false},
		{"its own", "new", []discoveryv1.Endpoint{of("new", &yes)}, true},
		{"the one before", "new", []discoveryv1.Endpoint{of("old", &yes)}, false},
		{"both", "new", []discoveryv1.Endpoint{of("new", &yes), of("old", &yes)}, false},
		{"the one before is going", "new", []discoveryv1.Endpoint{of("new", &yes), of("old", &no)}, true},
		{"it does not say whose", "new", []discoveryv1.Endpoint{of("", &yes)}, true},
		{"any", "", []discoveryv1.Endpoint{of("old", &yes)}, true},
	} {
		if got := hasReady([]discoveryv1.EndpointSlice{{Endpoints: c.endpoints}}, c.uid); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Pods of a node that died before or during their replacement stay until it is back, and are not
// awaited. Those of other nodes are.
func TestReplacePodsOfDeadNodes(t *testing.T) {
	pod := func(name string, ready corev1.ConditionStatus, ending bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Labels: map[string]string{mesh.AppLabel: "client-plain"}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}, ContainerStatuses: []corev1.ContainerStatus{{Ready: true}}}}
		if ending {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		return p
	}
	const noticed = 40 * time.Second
	for name, takes := range map[string]time.Duration{"before": 0, "meanwhile": noticed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := pod("dead", corev1.ConditionFalse, true)
				dead := lost
				if takes > 0 {
					dead = pod("dead", corev1.ConditionTrue, false)
				}
				kube, began := fakecluster.New(dead, pod("alive", corev1.ConditionTrue, false)), time.Now()
				kube.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
					return a.(clienttesting.DeleteAction).GetName() == "dead", nil, nil // its end is never reported
				})
				lists := 0
				kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					lists++
					return lists == 2, nil, apierrors.NewServiceUnavailable("the API server is busy for a moment")
				})
				time.AfterFunc(takes, func() {
					if _, err := kube.CoreV1().Pods("n").Update(t.Context(), lost, metav1.UpdateOptions{}); err != nil {
						t.Error(err)
					}
				})
				d := &deployed{Site: &site.Site{Kube: kube, Namespace: "n"}, topology: topology{clients: map[dataplane.Variant]mesh.Workload{{}: {Name: "client-plain"}}}}
				must.OK(t, d.replacePods(t.Context()))
				if took := time.Since(began); took < takes || took > takes+2*renewLook {
					t.Errorf("it took %v, not %v", took, takes)
				}
				left, err := kube.CoreV1().Pods("n").List(t.Context(), metav1.ListOptions{})
				if err != nil || len(left.Items) != 1 || left.Items[0].Name != "dead" {
					t.Errorf("left are %v, %v", left, err)
				}
			})
		})
	}
}

// A pod that Istio's node agent does not redirect ends a deployment if cells are in an ambient
// mesh, and no other.
func TestAwaitBrought(t *testing.T) {
	pod := func(redirection string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "client-ambient-1", Labels: map[string]string{"istio.io/dataplane-mode": "ambient"},
			Annotations: map[string]string{"ambient.istio.io/redirection": redirection}}, Spec: corev1.PodSpec{NodeName: "one"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	}
	for name, c := range map[string]struct{ sidecars, redirection, fails string }{
		"redirected": {"ambient", "enabled", ""},
		"not":        {"ambient", "pending", `Istio's node agent on node one has not added pod client-ambient-1 to the node's proxy after 60 checks: its annotation ambient.istio.io/redirection is "pending", not "enabled"`},
		"nor need":   {"both", "pending", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := studytest.Plan(t, studytest.ThreeCells, "mesh=istio", "sidecars="+c.sidecars)
				d := &deployed{Site: &site.Site{Kube: fakecluster.New(pod(c.redirection)), Namespace: "ns"}, topology: newTopology("ns", plan), o: &runner.Options{Mesh: sitetest.Istio()}}
				err := d.awaitBrought(t.Context())
				if (err == nil) != (c.fails == "") || err != nil && (!strings.Contains(err.Error(), c.fails) || !strings.Contains(errs.Hint(err), "-l k8s-app=istio-cni-node")) {
					t.Errorf("%v (hint %q), want %q", err, errs.Hint(err), c.fails)
				}
			})
		})
	}
}
