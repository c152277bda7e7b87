//go:build integration

package churn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// envoy is a real proxy.
type envoy struct {
	identity population.Identity
	dialer   *lab.Dialer
}

// realEnvoys adds a pod with a sidecar and a gateway to the population.
func realEnvoys(t *testing.T, ctx context.Context, config *rest.Config) []envoy {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	must.OK(t, err)
	dialer := lab.NewDialer(config)
	t.Cleanup(func() { dialer.Close() })
	second := int64(1)
	var out []envoy
	for _, e := range []struct {
		kind, namespace     string
		labels, annotations map[string]string
		container           corev1.Container
	}{
		{population.Sidecar, population.Namespace(0), map[string]string{"app": "real"}, nil, corev1.Container{Name: "app", Image: "docker.io/meshtrial/pause:1"}},
		{population.Router, population.GatewayNamespace, map[string]string{"app": population.GatewayDeployment, population.GatewayLabel: "true"},
			map[string]string{"inject.istio.io/templates": "gateway"}, corev1.Container{Name: "istio-proxy", Image: "auto", ImagePullPolicy: corev1.PullIfNotPresent}},
	} {
		e.labels["sidecar.istio.io/inject"] = "true"
		if e.annotations == nil {
			e.annotations = map[string]string{}
		}
		e.annotations["sidecar.istio.io/proxyCPU"] = "10m"
		e.annotations["sidecar.istio.io/proxyMemory"] = "32Mi"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "real-" + e.kind, Namespace: e.namespace, Labels: e.labels, Annotations: e.annotations},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &second, Containers: []corev1.Container{e.container}}}
		must.OK(t, must.Err(kube.CoreV1().Pods(e.namespace).Create(ctx, pod, metav1.CreateOptions{})))
		out = append(out, envoy{population.Identity{Type: e.kind, Name: pod.Name, Namespace: pod.Namespace}, dialer})
	}
	t.Cleanup(func() {
		for _, e := range out {
			kube.CoreV1().Pods(e.identity.Namespace).Delete(context.Background(), e.identity.Name, metav1.DeleteOptions{})
		}
	})
	for _, e := range out {
		eventually.Succeeds(t, 5*time.Minute, e.identity.Name+" is ready", func() error {
			pod, err := kube.CoreV1().Pods(e.identity.Namespace).Get(ctx, e.identity.Name, metav1.GetOptions{})
			if err == nil && !lab.PodReady(pod) {
				err = fmt.Errorf("%+v", pod.Status.Conditions)
			}
			return err
		})
	}
	return out
}

// dump is the configuration of a proxy: the text of each resource, by type and name.
type dump map[string]map[string]string

// dump reads the configuration of an Envoy. See envoy/admin/v3/config_dump.proto.
func (e envoy) dump() (dump, error) {
	client := e.dialer.Client(e.identity.Namespace, e.identity.Name, 15000)
	client.Timeout = 30 * time.Second
	answer, err := client.Get("http://pod/config_dump?include_eds")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	type named struct {
		Name    string `json:"name"`
		Cluster string `json:"cluster_name"`
	}
	var document struct {
		Configs []struct {
			Clusters []struct {
				Cluster json.RawMessage `json:"cluster"`
			} `json:"dynamic_active_clusters"`
			Listeners []struct {
				Active struct {
					Listener json.RawMessage `json:"listener"`
				} `json:"active_state"`
			} `json:"dynamic_listeners"`
			Routes []struct {
				Route json.RawMessage `json:"route_config"`
			} `json:"dynamic_route_configs"`
			Endpoints []struct {
				Endpoints json.RawMessage `json:"endpoint_config"`
			} `json:"dynamic_endpoint_configs"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, err
	}
	out := dump{"cds": {}, "lds": {}, "rds": {}, "eds": {}}
	put := func(kind string, text json.RawMessage) {
		var n named
		if json.Unmarshal(text, &n) == nil {
			out[kind][n.Name+n.Cluster] = string(text)
		}
	}
	for _, c := range document.Configs {
		for _, x := range c.Clusters {
			put("cds", x.Cluster)
		}
		for _, x := range c.Listeners {
			put("lds", x.Active.Listener)
		}
		for _, x := range c.Routes {
			put("rds", x.Route)
		}
		for _, x := range c.Endpoints {
			put("eds", x.Endpoints)
		}
	}
	return out, nil
}

// has reports whether a resource that a marker may mean holds its text.
func (d dump) has(m record.Marker) bool {
	for name, text := range d[m.Type] {
		if (m.Resource == "" || m.Resource == name) && whole(text, m.Text) {
			return true
		}
	}
	return false
}

// whole reports whether text contains a word that no letter or digit follows.
func whole(text, word string) bool {
	for {
		i := strings.Index(text, word)
		if i < 0 {
			return false
		}
		text = text[i+len(word):]
		if text == "" || !strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyz", rune(text[0])) {
			return true
		}
	}
}

var sizes = population.Sizes{Namespaces: 2, Services: 4, EndpointsPerService: 2, Proxies: 10, Gateways: 1}

// TestKinds executes each kind of change and looks for its markers in real Envoys.
func TestKinds(t *testing.T) {
	config := labtest.Start(t).RESTConfig()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	must.OK(t, must.Err(population.Ensure(ctx, config, sizes)))
	envoys := realEnvoys(t, ctx, config)
	for _, endpoints := range []string{churn.EndpointsControllers, churn.EndpointsDirect} {
		for i, kind := range churn.Kinds() {
			if endpoints == churn.EndpointsDirect && !strings.HasPrefix(kind, "endpoints") && kind != churn.KindRollingRestart {
				continue
			}
			if kind == churn.KindGatewayRoute || kind == churn.KindHTTPRoute {
				continue // there is no real gateway here; see TestGatewayRoutes of package cli
			}
			t.Run(kind+" "+endpoints, func(t *testing.T) {
				spec := churn.Spec{Trial: fmt.Sprintf("it-%s-%d", endpoints[:1], i), Kind: kind, Arrival: churn.ArrivalUniform,
					Shape: arrival.Shape{Kind: arrival.Constant, RateRPS: 5}, Count: 2, Seed: 1, Endpoints: endpoints, Population: sizes}
				if kind == churn.KindEndpointsFlap || kind == churn.KindEndpointsScale {
					spec.Count = 8 // there and back
				}
				drive(t, ctx, config, spec, envoys)
			})
		}
	}
	ids, err := population.Ensure(ctx, config, sizes)
	if err != nil || len(ids) != 11 {
		t.Errorf("after all changes: %d proxies, %v", len(ids), err)
	}
	world, err := population.New(config)
	must.OK(t, err)
	must.OK(t, world.Remove(ctx))
}

// settled waits until the population is complete and the proxies have everything that was
// prepared. It returns their configuration, with all endpoints and a Service created
// last.
func settled(t *testing.T, ctx context.Context, config *rest.Config, trial string, envoys []envoy) []dump {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	must.OK(t, err)
	if _, err := population.Ensure(ctx, config, sizes); err != nil { // an earlier plan's pods may still come or go
		t.Fatal(err)
	}
	var addresses []string
	for _, namespace := range sizes.NamespaceNames() {
		slices, err := kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
		must.OK(t, err)
		for _, s := range slices.Items {
			for _, e := range s.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					addresses = append(addresses, e.Addresses...)
				}
			}
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "after-" + trial, Namespace: population.Namespace(0)},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: population.ServicePort}}}}
	must.OK(t, must.Err(kube.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})))
	t.Cleanup(func() { // before the namespace is deleted, for the next test
		_ = kube.CoreV1().Services(service.Namespace).Delete(context.Background(), service.Name, metav1.DeleteOptions{})
	})
	out := make([]dump, len(envoys))
	for i, e := range envoys {
		eventually.Succeeds(t, 2*time.Minute, e.identity.Name+" has what was prepared", func() (err error) {
			if out[i], err = e.dump(); err != nil {
				return err
			}
			cluster := population.Service{Namespace: service.Namespace, Name: service.Name}.Cluster("")
			if out[i]["cds"][cluster] == "" {
				return fmt.Errorf("no cluster %s", cluster)
			}
			for _, address := range addresses {
				if !out[i].has(record.Marker{Type: "eds", Text: address}) {
					return fmt.Errorf("no endpoint %s", address)
				}
			}
			return nil
		})
	}
	return out
}

// drive executes a plan, checks its events, and checks that every proxy that needs a
// change ends up with what its last markers say.
func drive(t *testing.T, ctx context.Context, config *rest.Config, spec churn.Spec, envoys []envoy) {
	plan, err := churn.NewPlan(spec)
	must.OK(t, err)
	driver, err := churn.NewDriver(config, plan)
	must.OK(t, err)
	must.OK(t, driver.Prepare(ctx))
	defer func() { must.OK(t, driver.Cleanup(ctx)) }()
	before := settled(t, ctx, config, spec.Trial, envoys)
	var mu sync.Mutex
	var announced []record.Marker
	start := time.Now().Add(300 * time.Millisecond)
	events, err := driver.Drive(ctx, start, func(_ context.Context, markers []record.Marker) error {
		mu.Lock()
		defer mu.Unlock()
		announced = append(announced, markers...)
		return nil
	})
	must.OK(t, err)
	last := map[string]record.Marker{} // by type and text
	needs := map[string]int{}
	first := map[string]bool{}
	count := 0
	for i, e := range events {
		c := plan.Changes[i]
		t.Logf("%s %s: sent %.1f ms after its time, committed %.1f ms later, watched %.1f ms after that", e.Op, e.Object,
			float64(e.SentNS-e.PlannedNS)/1e6, float64(e.CommittedNS-e.SentNS)/1e6, float64(e.WatchedNS-e.CommittedNS)/1e6)
		if e.Error != "" || e.SentNS < e.PlannedNS || e.CommittedNS < e.SentNS || e.Change != i || e.PlannedNS != start.UnixNano()+c.OffsetNS {
			t.Errorf("event %+v", e)
		}
		count += len(e.Markers)
		for _, m := range e.Markers {
			key := m.Type + m.Resource + m.Text
			if !first[key] {
				first[key] = true
				for k, envoy := range envoys {
					if c.Needs(envoy.identity, churn.Visibility{}) && before[k].has(m) != m.Gone {
						t.Errorf("%s already shows %+v before its change", envoy.identity.Name, m)
					}
				}
			}
			last[key], needs[key] = m, i
		}
	}
	if len(announced) != count {
		t.Errorf("%d markers were announced, the events have %d", len(announced), count)
	}
	if (spec.Kind == churn.KindNoOp || spec.Kind == churn.KindNamespaceLabels) == (count > 0) {
		t.Errorf("%d markers", count)
	}
	for _, envoy := range envoys {
		eventually.Succeeds(t, 2*time.Minute, "what "+envoy.identity.Name+" needs", func() error {
			now, err := envoy.dump()
			if err != nil {
				return err
			}
			var missing []string
			for key, m := range last {
				if plan.Changes[needs[key]].Needs(envoy.identity, churn.Visibility{}) && now.has(m) == m.Gone {
					missing = append(missing, fmt.Sprintf("%+v", m))
				}
			}
			if len(missing) > 0 {
				slices.Sort(missing)
				return fmt.Errorf("%d of %d markers: %s", len(missing), len(last), strings.Join(missing, " "))
			}
			return nil
		})
	}
}
