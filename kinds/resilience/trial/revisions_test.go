package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// toldPlanes is a mesh of two revisions whose control planes report their connections.
type toldPlanes struct {
	mesh.Mesh
	says map[*http.Client][]mesh.Connected
}

func (toldPlanes) Plane(_ context.Context, _ kubernetes.Interface, revision string) (mesh.Plane, error) {
	plane := mesh.Plane{Revision: "default", Namespace: "istio-system", Selector: "rev=default", Labels: map[string]string{"rev": "", "injection": "enabled"}, PodLabels: map[string]string{"rev": "stays"}}
	switch revision {
	case "canary":
		plane.Revision, plane.Selector, plane.Labels, plane.PodLabels = revision, "rev=canary", map[string]string{"rev": "canary", "injection": ""}, map[string]string{"rev": ""}
	case "":
	default:
		return plane, fmt.Errorf("no revision %s", revision)
	}
	return plane, nil
}

func (m toldPlanes) Connected(_ context.Context, client *http.Client, namespace string) ([]mesh.Connected, error) {
	return slices.DeleteFunc(slices.Clone(m.says[client]), func(c mesh.Connected) bool {
		return strings.HasPrefix(c.Pod, "zt-") != (namespace == "istio-system")
	}), nil
}

// movedTrial returns a trial of two servers and a client, in a cluster with two istiods.
func movedTrial(t *testing.T, says map[string][]string) *scenarioTrial {
	t.Helper()
	plan := studytest.Plan(t, strings.NewReplacer("mesh: linkerd", "mesh: istio", "retries: 2", "connections: 2").Replace(oneService))
	m := toldPlanes{sitetest.Istio(), map[*http.Client][]mesh.Connected{}}
	scene := sceneIn(t, plan, plan.Cells[0], m)
	var err error
	istiod := func(revision string) *corev1.Pod {
		pod := podOf("istiod-"+revision, "istiod", "10.1.0.1", true)
		pod.Namespace, pod.Spec.NodeName, pod.Labels = "istio-system", "node", map[string]string{"rev": revision}
		pod.UID = types.UID(pod.Name)
		return pod
	}
	server := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "bar", Namespace: scene.namespace},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rev": "old", mesh.AppLabel: "bar"}}}}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scene.namespace, Labels: map[string]string{"injection": "enabled", "mine": "yes"}}}
	at := &site.Site{Kube: fakecluster.New(istiod("default"), istiod("canary"), server, namespace), Namespace: scene.namespace, Run: "run", Observers: map[string]observe.Client{"node": {HTTPClient: http.DefaultClient}}}
	out := &scenarioTrial{stage: &stage{Site: at, o: &runner.Options{}}, scene: scene, census: newTestCensus()}
	for _, name := range []string{"bar-1", "bar-2", "clients-1"} {
		service, _, _ := strings.Cut(name, "-")
		out.census.pods[name] = &resident{uid: name}
		out.census.pods[name].Name, out.census.pods[name].Service = name, service
	}
	out.revisions = &revisions{mesh: m, clients: map[string]*http.Client{}, planes: map[string]mesh.Plane{}, on: map[string]string{"bar": fault.Installed, roleClients: fault.Installed}}
	for pod, connected := range says {
		client := &http.Client{}
		out.revisions.clients[pod] = client
		for _, name := range connected {
			m.says[client] = append(m.says[client], mesh.Connected{Pod: name, Acknowledged: true})
		}
	}
	for step, revision := range map[string]string{fault.Installed: "", "canary": "canary"} {
		out.revisions.planes[step], err = m.Plane(t.Context(), nil, revision)
		must.OK(t, err)
	}
	return out
}

// moved begins a step that moves all pods.
func moved(t *testing.T, h *executor, name, to string) drive.Execution {
	t.Helper()
	step, err := h.move(t.Context(), name, &fault.Move{To: to})
	if err == nil {
		err = step.Begin(t.Context())
	}
	must.OK(t, err)
	return step
}

// Each sidecar is where the control planes themselves report it, clients too. A misplaced one is
// awaited, and then recorded as it was.
func TestSides(t *testing.T) {
	for name, tt := range map[string]struct {
		onDefault, onCanary string
		to                  string // where the servers should be
		says                string // part of the error
	}{
		"before":            {"bar-1 bar-2 clients-1 other", "", fault.Installed, ""},
		"moved":             {"clients-1", "bar-1 bar-2", "canary", ""},
		"one stayed":        {"clients-1 bar-1", "bar-2", "canary", "proxy of bar-1 is connected to revision default, not only to canary"},
		"one on both":       {"clients-1 bar-1", "bar-1 bar-2", "canary", "proxy of bar-1"},
		"one on none":       {"clients-1", "bar-2", "canary", "proxy of bar-1 is connected to revision none"},
		"the client went":   {"", "bar-1 bar-2 clients-1", "canary", "proxy of clients-1"},
		"one moved too far": {"bar-1 clients-1", "bar-2", fault.Installed, "proxy of bar-2 is connected to revision canary"},
	} {
		t.Run(name, func(t *testing.T) {
			trial := movedTrial(t, map[string][]string{"istiod-default": strings.Fields(tt.onDefault), "istiod-canary": strings.Fields(tt.onCanary)})
			trial.revisions.on["bar"] = tt.to
			look, err := trial.untilSides(briefly(t), "step")
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v", err)
			}
			if len(look.Sidecars) != 3 || look.When != "step" {
				t.Errorf("%+v", look)
			}
			if wrong := look.Wrong(); (wrong == nil) != (tt.says == "") {
				t.Errorf("what is noted is %v", wrong)
			}
		})
	}
}

// A sidecar that has not acknowledged its configuration is connected, but not moved yet.
func TestSidesAcknowledge(t *testing.T) {
	trial := movedTrial(t, map[string][]string{"istiod-default": {"bar-1", "bar-2", "clients-1"}, "istiod-canary": nil})
	for _, connected := range trial.revisions.mesh.(toldPlanes).says {
		connected[0].Acknowledged = false
	}
	look, err := trial.untilSides(briefly(t), verdict.BeforeSteps)
	if err == nil || !strings.Contains(err.Error(), "acknowledged") || look.Wrong() != nil {
		t.Errorf("%+v, %v", look, err)
	}
}

// A move labels the namespace and replaces pods in a way that leaves no label of the old revision.
// Its end restores the namespace's labels, and no others.
func TestMove(t *testing.T) {
	trial := movedTrial(t, map[string][]string{"istiod-default": nil, "istiod-canary": nil})
	labels := func() map[string]string {
		n, err := trial.Kube.CoreV1().Namespaces().Get(t.Context(), trial.Namespace, metav1.GetOptions{})
		must.OK(t, err)
		return n.Labels
	}
	before := maps.Clone(labels())
	h := newExecutor(t.Context(), trial)
	if _, err := h.move(t.Context(), "moved", &fault.Move{To: "other"}); err == nil || !strings.Contains(err.Error(), "revision other serves yet") {
		t.Errorf("to one that is not there: %v", err)
	}
	step := moved(t, h, "moved", "canary")
	if got := labels(); !maps.Equal(got, map[string]string{"rev": "canary", "mine": "yes"}) {
		t.Errorf("the namespace has %v", got)
	}
	d, err := trial.Kube.AppsV1().Deployments(trial.Namespace).Get(t.Context(), "bar", metav1.GetOptions{})
	must.OK(t, err)
	if pod := d.Spec.Template; !maps.Equal(pod.Labels, map[string]string{mesh.AppLabel: "bar"}) || pod.Annotations[restartedAt] == "" {
		t.Errorf("its pods have %v, %v", pod.Labels, pod.Annotations)
	}
	if trial.revisions.on["bar"] != "canary" || trial.revisions.on[roleClients] != fault.Installed {
		t.Errorf("they should be on %v", trial.revisions.on)
	}
	if err := step.End(t.Context()); err != nil || !maps.Equal(labels(), before) {
		t.Errorf("%v, and the namespace has %v", err, labels())
	}
}

// Pods that move to a control plane of another version get its annotations, and on the way back
// those that they started with.
func TestMoveBetweenVersions(t *testing.T) {
	trial := movedTrial(t, map[string][]string{"istiod-default": nil, "istiod-canary": nil})
	const image = "sidecar.istio.io/proxyImage"
	canary := trial.revisions.planes["canary"]
	canary.PodAnnotations = map[string]string{image: "hub/proxyv2:other"}
	trial.revisions.planes["canary"], trial.revisions.annotated = canary, map[string]bool{image: true}
	first, err := trial.scene.annotations("bar", "")
	must.OK(t, err)
	h := newExecutor(t.Context(), trial)
	for _, move := range []struct{ to, image string }{{"canary", "hub/proxyv2:other"}, {fault.Installed, first[image]}} {
		moved(t, h, move.to, move.to)
		d, err := trial.Kube.AppsV1().Deployments(trial.Namespace).Get(t.Context(), "bar", metav1.GetOptions{})
		must.OK(t, err)
		if got := d.Spec.Template.Annotations[image]; got != move.image {
			t.Errorf("to %s: the sidecar's image is %q, want %q", move.to, got, move.image)
		}
	}
	if first[image] == "" {
		t.Error("pods start without an image that a move could restore")
	}
}

// If two moves overlap, the first is not proved by the effects of the second.
func TestMovesOverlap(t *testing.T) {
	trial := movedTrial(t, map[string][]string{"istiod-default": {"bar-3", "bar-4", "clients-1"}, "istiod-canary": nil})
	h := newExecutor(t.Context(), trial)
	var steps []drive.Execution
	for _, one := range []struct{ name, to string }{{"moved", "canary"}, {"back", fault.Installed}} {
		steps = append(steps, moved(t, h, one.name, one.to))
	}
	c := trial.census
	c.mu.Lock()
	for i, name := range []string{"bar-3", "bar-4"} {
		delete(c.pods, fmt.Sprint("bar-", i+1))
		c.pods[name] = &resident{uid: name}
		c.pods[name].Name, c.pods[name].Service, c.pods[name].IP = name, "bar", name
	}
	c.slices["bar"], c.of["bar"] = map[string]bool{"bar-3": true, "bar-4": true}, "bar"
	c.mu.Unlock()
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if proof, err := steps[0].Prove(limited); err == nil || !strings.Contains(err.Error(), "another step moved the namespace to installed") {
		t.Errorf("the first is proved: %q, %v", proof, err)
	}
	if len(trial.evidence.Revisions) > 0 {
		t.Errorf("noted for it: %+v", trial.evidence.Revisions)
	}
	if _, err := steps[1].Prove(limited); err != nil {
		t.Errorf("the second: %v", err)
	}
	if got := trial.evidence.Revisions; len(got) != 1 || got[0].When != "back" || got[0].To != fault.Installed || got[0].Revision != "default" {
		t.Errorf("noted: %+v", got)
	}
}

// nodeJournal has a DaemonSet, whose pod is replaced with each change.
type nodeJournal struct {
	changer
	cluster fakecluster.Cluster
	object  *unstructured.Unstructured
	pods    int
}

func (j *nodeJournal) Change(_ context.Context, o journal.Object, _ string, edit journal.Edit, _ ...[]fields.Step) ([]fields.Field, error) {
	before := j.object.DeepCopy()
	after, err := edit(before.DeepCopy(), before.DeepCopy())
	if err != nil || o.Kind != "DaemonSet" || o.Name != "ztunnel" {
		return nil, fmt.Errorf("change %s: %v", o, err)
	}
	j.object = after
	return fields.Diff(before.Object, after.Object), j.replace()
}

func (j *nodeJournal) Revert(_ context.Context, _ journal.Object, _ string, step []fields.Field) error {
	restored, _ := fields.Undo(j.object.Object, step)
	j.object = &unstructured.Unstructured{Object: restored}
	return j.replace()
}

func (j *nodeJournal) replace() error {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	var err error
	if j.pods > 0 {
		err = j.cluster.Tracker().Delete(pods, "istio-system", fmt.Sprint("zt-", j.pods))
	}
	j.pods++
	pod := nodeProxy(fmt.Sprint("zt-", j.pods), "node", true)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ztunnel", Controller: site.Ptr(true)}}
	return errors.Join(err, j.cluster.Tracker().Add(pod))
}

// In an ambient mesh a move changes ztunnel's DaemonSet, and is proved by its new pods. The way back
// reverts the change.
func TestMoveAmbient(t *testing.T) {
	trial := movedTrial(t, map[string][]string{"istiod-default": {"zt-3", "zt-ending"}, "istiod-canary": {"zt-2"}})
	says := trial.revisions.mesh.(toldPlanes)
	plan := studytest.Plan(t, ambientServices)
	trial.scene = sceneIn(t, plan, plan.Cells[0], says)
	cluster := trial.Kube.(fakecluster.Cluster)
	ending := nodeProxy("zt-ending", "node", true)
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kept"}
	must.OK(t, cluster.Tracker().Add(ending))
	nodes := &nodeJournal{cluster: cluster, object: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"address": "default"}}}}
	must.OK(t, nodes.replace())
	first := nodes.object.DeepCopy()
	trial.changes, trial.shared.nodes, trial.revisions.shared = nodes, []string{"node"}, fault.Installed
	canary := trial.revisions.planes["canary"]
	canary.OnNodes = func(set *unstructured.Unstructured) error {
		return unstructured.SetNestedField(set.Object, "canary", "spec", "address")
	}
	trial.revisions.planes["canary"] = canary
	h := newExecutor(t.Context(), trial)
	seen := func(wrong string) {
		t.Helper()
		look, err := trial.untilSides(briefly(t), "step")
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) || len(look.Sidecars) != 1 {
			t.Errorf("%+v, %v", look, err)
		}
	}
	seen("the proxy of zt-1 is connected to revision none, not only to default")
	must.OK(t, moved(t, h, "moved", "canary").End(t.Context()))
	if n, err := trial.Kube.CoreV1().Namespaces().Get(t.Context(), trial.Namespace, metav1.GetOptions{}); err != nil || n.Labels["rev"] != "canary" {
		t.Errorf("the end of the timeline moves a waypoint: %v", err)
	}
	if address, _, _ := unstructured.NestedString(nodes.object.Object, "spec", "address"); address != "canary" {
		t.Errorf("ztunnel is connected to %s", address)
	}
	seen("")
	moved(t, h, "back", fault.Installed)
	if !reflect.DeepEqual(nodes.object, first) || len(trial.shared.reset) > 0 || len(trial.shared.leaving) != 1 || trial.shared.leaving[0].Name != "zt-2" {
		t.Errorf("the DaemonSet is %v, %d changes are left", nodes.object, len(trial.shared.reset))
	}
	seen("")
	says.says[trial.revisions.clients["istiod-canary"]] = []mesh.Connected{{Pod: "zt-3"}}
	if err := h.retire(briefly(t), "canary", sharedObjects{}); err == nil || !strings.Contains(err.Error(), "the proxy of zt-3 is still connected to revision canary") {
		t.Errorf("removed, though in use: %v", err)
	}
}
