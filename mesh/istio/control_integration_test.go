//go:build integration

package istio_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// site is a cluster with Istio and one injected pod.
type site struct {
	lab    *local.Lab
	config *rest.Config
	kube   kubernetes.Interface
	images lab.Images
}

const (
	inside  = "meshtrial-levers"     // the namespace of the injected pod
	outside = "meshtrial-levers-out" // a namespace that selectors can exclude
)

// newSite returns a lab with the clients that these tests use.
func newSite(t *testing.T) *site {
	t.Helper()
	l := labtest.Start(t)
	s := &site{lab: l, config: l.RESTConfig(), images: l.Images()}
	var err error
	s.kube, err = kubernetes.NewForConfig(s.config)
	must.OK(t, err)
	return s
}

// injected creates two namespaces, the inner one with an injected pod and a Service, and
// returns the pod as a proxy once it is ready.
func (s *site) injected(t *testing.T) mesh.ControlProxy {
	t.Helper()
	ctx := t.Context()
	for name, labels := range map[string]map[string]string{
		inside: {"istio-injection": "enabled"}, outside: {"meshtrial-out": "yes"},
	} {
		for began := time.Now(); ; time.Sleep(200 * time.Millisecond) { // an earlier test's may still be terminating
			_, err := s.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
			if err == nil {
				break
			}
			if !apierrors.IsAlreadyExists(err) || time.Since(began) > 4*time.Minute {
				t.Fatal(err)
			}
		}
		labtest.Namespace(t, s.lab, name)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: name},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
		must.OK(t, must.Err(s.kube.CoreV1().Services(name).Create(ctx, service, metav1.CreateOptions{})))
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: inside, Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{"sidecar.istio.io/proxyCPU": "10m", "sidecar.istio.io/proxyMemory": "32Mi"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: s.images.Meshtrial, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"worker"}}}},
	}
	deadline, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	for { // the namespace's service account appears a moment later
		_, err := s.kube.CoreV1().Pods(inside).Create(ctx, pod, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsForbidden(err) && !apierrors.IsInternalError(err) || deadline.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	must.OK(t, lab.WaitPods(deadline, s.kube, inside, "app=web", 1))
	live, err := s.kube.CoreV1().Pods(inside).Get(ctx, "web", metav1.GetOptions{})
	must.OK(t, err)
	return mesh.ControlProxy{ID: "sidecar~" + live.Status.PodIP + "~web." + inside + "~" + inside + ".svc.cluster.local",
		Namespace: inside, Labels: live.Labels}
}

// checkSoon repeats a check while a proxy reconnects.
func checkSoon(t *testing.T, plane *istio.ControlPlane, l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		checks := plane.Check(t.Context(), l, e)
		if len(failures(checks)) == 0 || time.Now().After(deadline) {
			return checks
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// awaitElected verifies that a replica of istiod holds the Lease for which the trial waits: the
// real istiod has one with this name.
func awaitElected(t *testing.T, s *site, plane *istio.ControlPlane) {
	t.Helper()
	must.OK(t, plane.AwaitElected(t.Context()))
	holder := labtest.Kubectl(t, s.lab, "", "-n", istio.Namespace, "get", "lease", "istio-gateway-status-leader-default", "-o", "jsonpath={.spec.holderIdentity}")
	pods, err := plane.Pods(t.Context())
	if err != nil || !slices.ContainsFunc(pods, func(p mesh.ControlPod) bool { return p.Name == holder }) {
		t.Errorf("elected is %q of %v, %v", holder, pods, err)
	}
}

// Every lever is set and verified, each wrong level fails the corresponding check, and another
// process reverts everything.
func TestLeversOnIstiod(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	changes := labtest.Journal(t, s.lab, "levers")
	plane, err := istio.NewControlPlane(ctx, s.config, "", changes)
	must.OK(t, err)
	defer plane.Close()
	before, err := s.kube.AppsV1().Deployments(istio.Namespace).Get(ctx, "istiod", metav1.GetOptions{})
	must.OK(t, err)
	config, err := s.kube.CoreV1().ConfigMaps(istio.Namespace).Get(ctx, "istio", metav1.GetOptions{})
	must.OK(t, err)
	t.Cleanup(func() { plane.Restore(context.Background()) })
	least := int32(1)
	scalers := s.kube.AutoscalingV2().HorizontalPodAutoscalers(istio.Namespace)
	scaler, err := scalers.Create(ctx, &autoscaling.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "meshtrial-levers"},
		Spec: autoscaling.HorizontalPodAutoscalerSpec{MinReplicas: &least, MaxReplicas: 5,
			ScaleTargetRef: autoscaling.CrossVersionObjectReference{Kind: "Deployment", Name: "istiod", APIVersion: "apps/v1"}}}, metav1.CreateOptions{})
	must.OK(t, err)
	t.Cleanup(func() { scalers.Delete(context.Background(), scaler.Name, metav1.DeleteOptions{}) })
	proxy := s.injected(t)
	evidence := mesh.ControlEvidence{Proxies: []mesh.ControlProxy{proxy}}

	none := mesh.LeversOf(nil)
	applied, err := plane.Apply(ctx, none, false)
	if err != nil || applied.Restarted || len(applied.Changed) > 0 {
		t.Errorf("no lever is named: %+v, %v", applied, err)
	}
	if bad := failures(checkSoon(t, plane, none, evidence)); bad != nil {
		t.Errorf("no lever is named: %s", strings.Join(bad, "\n"))
	}
	found, err := plane.Found(ctx, none)
	must.OK(t, err)
	for _, f := range controlplane.Levers() {
		if f.Usual != "" && f.Name != controlplane.FactorSidecarHosts && found[f.Name] != f.Usual {
			t.Errorf("%s is installed as %q in the lab, usually %q", f.Name, found[f.Name], f.Usual)
		}
	}

	all := mesh.LeversOf(record.Cell{
		"sidecar_scope": "namespace", "sidecar_hosts": "./*", "outbound_policy": "REGISTRY_ONLY", "export_to": ".",
		"discovery_selectors": "meshtrial-out!=yes", "debounce_after": "250ms", "debounce_max": "5s", "eds_debounce": "false",
		"push_throttle": "7", "request_limit": "12.5", "istiod_replicas": "2", "istiod_cpu": "1", "istiod_memory": "1Gi",
		"delta": "false", "xds_cache": "false", "dns_capture": "true", "istiod_env": "PILOT_ENABLE_IP_AUTOALLOCATE=false;GOGC=150",
	})
	all.Namespaces = []string{inside}
	applied, err = plane.Apply(ctx, all, true)
	must.OK(t, err)
	t.Logf("all levers: %+v", applied)
	if !applied.Restarted || !slices.Contains(applied.Changed, "Sidecar "+inside+"/default") {
		t.Errorf("applied %+v", applied)
	}
	awaitElected(t, s, plane)
	if bad := failures(checkSoon(t, plane, all, evidence)); bad != nil {
		t.Errorf("all levers: %s", strings.Join(bad, "\n"))
	}
	want := all.Levels.With(record.Cell{"outbound_policy": "ALLOW_ANY", "sidecar_scope": "none", "sidecar_hosts": "", "istiod_env": found["istiod_env"], // set by others, or not a feature
		"istiod_cpu_request": "", "istiod_memory_request": "", "istiod": found["istiod"]})
	if set, err := plane.Found(ctx, none); err != nil {
		t.Error(err)
	} else {
		for factor, level := range want {
			if level != "" && factor != controlplane.FactorIstiodEnv && set[factor] != level {
				t.Errorf("%s is set to %s and found to be %q", factor, level, set[factor])
			}
		}
		if env := set[controlplane.FactorIstiodEnv]; !strings.Contains(env, "GOGC=150") || !strings.Contains(env, "PILOT_ENABLE_IP_AUTOALLOCATE=false") {
			t.Errorf("environment %q", env)
		}
	}
	if held, err := scalers.Get(ctx, scaler.Name, metav1.GetOptions{}); err != nil || *held.Spec.MinReplicas != 2 || held.Spec.MaxReplicas != 2 {
		t.Errorf("the autoscaler is not held: %+v, %v", held.Spec, err)
	}
	for name, change := range map[string]struct {
		factor, level string
		fails         []string
	}{
		"scope":     {controlplane.FactorSidecarScope, "none", []string{"mesh outbound_policy", "sidecar-scope"}},
		"hosts":     {controlplane.FactorSidecarHosts, "istio-system/*", []string{"sidecar-scope"}},
		"policy":    {controlplane.FactorOutboundPolicy, "ALLOW_ANY", []string{"sidecar-scope"}},
		"export":    {controlplane.FactorExportTo, "*", []string{"mesh export_to defaultDestinationRuleExportTo", "mesh export_to defaultServiceExportTo", "mesh export_to defaultVirtualServiceExportTo"}},
		"selectors": {controlplane.FactorDiscoverySelectors, "meshtrial-out=yes", []string{"mesh discovery_selectors"}},
		"after":     {study.FactorDebounceAfter, "100ms", []string{"env PILOT_DEBOUNCE_AFTER"}},
		"replicas":  {controlplane.FactorIstiodReplicas, "1", []string{"istiod-replicas"}},
		"cpu":       {controlplane.FactorIstiodCPU, "none", []string{"istiod-cpu"}},
		"memory":    {controlplane.FactorIstiodMemory, "2Gi", []string{"istiod-memory"}},
		"dns":       {controlplane.FactorDNSCapture, "false", []string{"mesh dns_capture"}},
		"env":       {controlplane.FactorIstiodEnv, "GOGC=100", []string{"env GOGC"}},
		"image":     {controlplane.FactorIstiod, "docker.io/istio/pilot:other", []string{"istiod-image"}},
	} {
		wrong := all.With(change.factor, change.level)
		for began := time.Now(); ; time.Sleep(500 * time.Millisecond) { // a proxy may be reconnecting
			var names []string
			for _, c := range plane.Check(ctx, wrong, evidence) {
				if !c.OK {
					names = append(names, c.Name)
				}
			}
			slices.Sort(names)
			if slices.Equal(names, change.fails) {
				break
			}
			if time.Since(began) > 30*time.Second {
				t.Errorf("%s: fails %v, want %v", name, names, change.fails)
				break
			}
		}
	}

	s.onlyOne(t, plane, before, config, scaler)

	// Forbidden and impossible settings are refused before anything changes.
	bad := all
	bad = bad.With(study.FactorDebounceAfter, "soon")
	if _, err := plane.Apply(ctx, bad, false); err == nil || !strings.Contains(err.Error(), "debounce_after") {
		t.Errorf("debounce_after soon: %v", err)
	}

	other, err := istio.NewControlPlane(ctx, s.config, "", changes)
	must.OK(t, err)
	defer other.Close()
	must.OK(t, other.Restore(ctx))
	after, err := s.kube.AppsV1().Deployments(istio.Namespace).Get(ctx, "istiod", metav1.GetOptions{})
	must.OK(t, err)
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		t.Errorf("Deployment is not as it was:\n%+v\n%+v", before.Spec, after.Spec)
	}
	restored, err := s.kube.CoreV1().ConfigMaps(istio.Namespace).Get(ctx, "istio", metav1.GetOptions{})
	must.OK(t, err)
	if restored.Data["mesh"] != config.Data["mesh"] || len(restored.Annotations) != len(config.Annotations) {
		t.Errorf("ConfigMap is not as it was: %v", restored)
	}
	if let, err := scalers.Get(ctx, scaler.Name, metav1.GetOptions{}); err != nil || !equality.Semantic.DeepEqual(let.Spec, scaler.Spec) || len(let.Annotations) != len(scaler.Annotations) {
		t.Errorf("the autoscaler is not as it was: %+v, %v", let, err)
	}
	if err := other.Restore(ctx); err != nil {
		t.Errorf("nothing to restore: %v", err)
	}
}

// onlyOne names one lever after all were set: all others are as installed again, and a Sidecar
// of another user does not conflict.
func (s *site) onlyOne(t *testing.T, plane *istio.ControlPlane, before *appsv1.Deployment, config *corev1.ConfigMap, scaler *autoscaling.HorizontalPodAutoscaler) {
	ctx := t.Context()
	must.OK(t, s.applySidecar(ctx, "theirs"))
	t.Cleanup(func() { s.deleteSidecar(context.Background(), "theirs") }) // in case it failed
	one := mesh.LeversOf(record.Cell{"debounce_after": "300ms"})
	must.OK(t, must.Err(plane.Apply(ctx, one, false)))
	if bad := failures(checkSoon(t, plane, one, mesh.ControlEvidence{})); bad != nil {
		t.Errorf("one lever: %s", strings.Join(bad, "\n"))
	}
	now, err := s.kube.AppsV1().Deployments(istio.Namespace).Get(ctx, "istiod", metav1.GetOptions{})
	must.OK(t, err)
	// What belongs to the lever, or to any lever of the Deployment, and the restart.
	now.Spec.Strategy, now.Spec.Template.Annotations = before.Spec.Strategy, before.Spec.Template.Annotations
	for i := range now.Spec.Template.Spec.Containers {
		c, was := &now.Spec.Template.Spec.Containers[i], before.Spec.Template.Spec.Containers[i]
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "PILOT_DEBOUNCE_AFTER" && e.Value == "300ms" })
		if c.ReadinessProbe != nil {
			c.ReadinessProbe.PeriodSeconds = was.ReadinessProbe.PeriodSeconds
		}
	}
	if !equality.Semantic.DeepEqual(now.Spec, before.Spec) {
		t.Errorf("one lever changes more of the Deployment:\n%+v\n%+v", before.Spec, now.Spec)
	}
	if m, err := s.kube.CoreV1().ConfigMaps(istio.Namespace).Get(ctx, "istio", metav1.GetOptions{}); err != nil || m.Data["mesh"] != config.Data["mesh"] {
		t.Errorf("the mesh configuration is not as installed: %v, %v", m.Data, err)
	}
	if let, err := s.kube.AutoscalingV2().HorizontalPodAutoscalers(istio.Namespace).Get(ctx, scaler.Name, metav1.GetOptions{}); err != nil || !equality.Semantic.DeepEqual(let.Spec, scaler.Spec) {
		t.Errorf("the autoscaler is not as installed: %+v, %v", let.Spec, err)
	}
	found, err := plane.Found(ctx, one)
	if err != nil || found["sidecar_scope"] != "mesh" || found["sidecar_hosts"] != "*/*" || found["debounce_after"] != "" || found["debounce_max"] != "10s" {
		t.Errorf("found %v, %v", found, err)
	}
	if _, err := plane.Apply(ctx, mesh.LeversOf(record.Cell{"sidecar_scope": "none"}), false); err == nil || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("a scope beside somebody else's Sidecar: %v", err)
	}
	must.OK(t, s.deleteSidecar(ctx, "theirs"))
}

var sidecars = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"}

// applySidecar creates a mesh-wide Sidecar that allows everything.
func (s *site) applySidecar(ctx context.Context, name string) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	_, err = client.Resource(sidecars).Namespace(istio.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"egress": []any{map[string]any{"hosts": []any{"*/*"}}}}}}, metav1.CreateOptions{})
	return err
}

func (s *site) deleteSidecar(ctx context.Context, name string) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	return client.Resource(sidecars).Namespace(istio.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// The metrics of istiod and the API server, and profiles, are read as in a trial.
func TestObserveIstiod(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	plane, err := istio.NewControlPlane(ctx, s.config, "", labtest.Journal(t, s.lab, "observed"))
	must.OK(t, err)
	defer plane.Close()
	s.injected(t)
	dialer := lab.NewDialer(s.config)
	defer dialer.Close()
	pods, err := plane.Pods(ctx)
	if err != nil || len(pods) != 1 {
		t.Fatalf("pods %v, %v", pods, err)
	}
	replicas := []observe.Replica{{Name: pods[0].Name, HTTP: dialer.Client(pods[0].Namespace, pods[0].Name, pods[0].AdminPort)}}
	first, err := observe.ScrapeAll(ctx, replicas)
	must.OK(t, err)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: inside},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	must.OK(t, must.Err(s.kube.CoreV1().Services(inside).Create(ctx, service, metav1.CreateOptions{})))
	var second observe.Scrape
	var control record.Control
	for began := time.Now(); control.Istiod[`pilot_xds_pushes{type="cds"}`] < 1; time.Sleep(500 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("no push of the new Service: %+v", control)
		}
		second, err = observe.ScrapeAll(ctx, replicas)
		must.OK(t, err)
		control = record.Control{}
		must.OK(t, observe.FillControl(&control, first, second))
	}
	if control.HeapBytes == 0 || control.AllocBytes == 0 || control.Goroutines == 0 {
		t.Errorf("control %+v", control)
	}
	if len(control.Missing) > 0 {
		t.Errorf("missing %v", control.Missing)
	}
	client, err := rest.HTTPClientFor(s.config)
	must.OK(t, err)
	page, ok, err := observe.APIServer(ctx, client, s.config.Host)
	if err != nil || !ok {
		t.Fatalf("API server: %v, %v", ok, err)
	}
	if cpu, ok, err := observe.ProcessCPU(page, page); err != nil || !ok || cpu.UserS != 0 {
		t.Errorf("CPU %+v %v %v", cpu, ok, err)
	}
	anonymous := rest.AnonymousClientConfig(s.config)
	if c, err := rest.HTTPClientFor(anonymous); err != nil {
		t.Error(err)
	} else if _, ok, err := observe.APIServer(ctx, c, s.config.Host); ok || err != nil {
		t.Errorf("a stranger reads the API server's metrics: %v, %v", ok, err)
	}
	for _, kind := range []string{observe.ProfileCPU, observe.ProfileMutex, observe.ProfileBlock, observe.ProfileHeap} {
		data, err := observe.FetchProfile(ctx, replicas[0], kind, time.Second)
		must.OK(t, err)
		if _, err := profile.ReadPprof(bytes.NewReader(data)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	discovery, err := plane.Discovery(ctx, istio.Namespace)
	if err != nil || !strings.Contains(string(discovery.RootCA), "BEGIN CERTIFICATE") || discovery.Plaintext == "" || discovery.Version == "" {
		t.Errorf("discovery %+v, %v", discovery, err)
	}
	// A restart causes an error rather than a figure.
	must.OK(t, must.Err(plane.Apply(ctx, mesh.LeversOf(nil), true)))
	defer plane.Restore(context.Background())
	pods, err = plane.Pods(ctx)
	if err != nil || len(pods) != 1 {
		t.Fatalf("pods %v, %v", pods, err)
	}
	replicas[0] = observe.Replica{Name: pods[0].Name, HTTP: dialer.Client(pods[0].Namespace, pods[0].Name, pods[0].AdminPort)}
	third, err := observe.ScrapeAll(ctx, replicas)
	must.OK(t, err)
	if _, err := third.Since(second); !errors.Is(err, observe.ErrReset) {
		t.Errorf("after a restart: %v", err)
	}
}
