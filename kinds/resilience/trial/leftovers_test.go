package trial

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

var istiodObject = journal.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "istio-system", Name: "istiod"}

// cordons is a journal of the nodes that steps have cordoned, and of istiod's levers. Changes to
// objects in fails fail.
type cordons struct {
	changer
	cordoned map[string]bool
	fails    map[string]error
	asked    []string
}

func (c *cordons) answer(what string) error {
	c.asked = append(c.asked, what)
	return c.fails[what]
}

func (c *cordons) Change(_ context.Context, o journal.Object, _ string, edit journal.Edit, _ ...[]fields.Step) ([]fields.Field, error) {
	wanted, err := edit(o.Bare(), o.Bare())
	if err != nil {
		return nil, err
	}
	c.cordoned[o.Name] = true
	return fields.Diff(nil, wanted.Object), c.answer("change")
}

func (c *cordons) Revert(_ context.Context, o journal.Object, _ string, _ []fields.Field) error {
	err := c.answer("revert")
	if err == nil {
		delete(c.cordoned, o.Name)
	}
	return err
}

func (c *cordons) Restore(_ context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error) {
	if err := c.answer("restore"); err != nil {
		return nil, err
	}
	if which(&journal.Entry{Object: istiodObject}) {
		return nil, errors.New("levers are reverted, which no step has changed")
	}
	var done []journal.Outcome
	for name := range c.cordoned {
		e := journal.Entry{Object: journal.Object{APIVersion: "v1", Kind: "Node", Name: name}}
		if which(&e) {
			delete(c.cordoned, name)
			done = append(done, journal.Outcome{Entry: e, Text: "as it was"})
		}
	}
	return done, nil
}

// drainingTrial returns a trial with two nodes, and a pod of a service on the first.
func drainingTrial(t *testing.T, changes changer) *scenarioTrial {
	t.Helper()
	var nodes []runtime.Object
	for _, name := range []string{"one", "two"} {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
	}
	trial := sharedTrial(fakecluster.New(nodes...))
	trial.changes, trial.scene, trial.census, trial.o = changes, sceneOf(t, "drain"), newTestCensus(), &runner.Options{}
	trial.census.pods["b"] = &resident{uid: "b", ScenarioPod: record.ScenarioPod{Name: "bar-1", Service: "bar", Node: "one"}}
	return trial
}

// A node left cordoned by the end of a step is not cordoned in the next trial, which begins by
// reverting it. If that fails there is no trial, and the error says what is left and what to do. If
// all steps were undone there are no requests.
func TestLeftovers(t *testing.T) {
	unheard := errors.New("nobody answers")
	changes := &cordons{cordoned: map[string]bool{}, fails: map[string]error{}}
	trial := drainingTrial(t, changes)
	drain := func() error {
		t.Helper()
		step, err := newExecutor(t.Context(), trial).Prepare(t.Context(), fault.Occurrence{Name: "gone", Action: &fault.Drain{Service: "bar", Pick: 1}})
		if err == nil {
			err = step.Begin(t.Context())
		}
		if err != nil || !changes.cordoned["one"] {
			t.Fatalf("cordoned %v, %v", changes.cordoned, err)
		}
		return step.End(t.Context())
	}
	if err := drain(); err != nil || len(changes.cordoned) > 0 {
		t.Fatalf("cordoned %v, %v", changes.cordoned, err)
	}
	changes.asked = nil
	if err := trial.putRight(t.Context()); err != nil || len(changes.asked) > 0 {
		t.Errorf("after a step that was undone it is asked to %v: %v", changes.asked, err)
	}

	changes.fails["revert"], changes.fails["restore"] = unheard, unheard
	if err := drain(); !errors.Is(err, unheard) || !changes.cordoned["one"] {
		t.Fatalf("cordoned %v, %v", changes.cordoned, err)
	}
	next := &scenarioTrial{stage: trial.stage, scene: trial.scene}
	if _, err := next.measure(t.Context()); !errors.Is(err, unheard) || !strings.Contains(err.Error(), "Node one") || !strings.Contains(errs.Hint(err), "meshtrial cluster restore") {
		t.Errorf("a trial with a node less: %v, hint %q", err, errs.Hint(err))
	}
	delete(changes.fails, "restore")
	if err := next.putRight(t.Context()); err != nil || len(changes.cordoned) > 0 {
		t.Errorf("cordoned %v, %v", changes.cordoned, err)
	}
	changes.asked = nil
	if err := next.putRight(t.Context()); err != nil || len(changes.asked) > 0 {
		t.Errorf("once it is reverted it is asked to %v: %v", changes.asked, err)
	}
}

// A control plane that was away is back once it has a pod.
func TestServesAgain(t *testing.T) {
	istiod := func(wanted, ready int32) runtime.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "istiod", Namespace: "istio-system"},
			Spec: appsv1.DeploymentSpec{Replicas: site.Ptr(wanted)}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
	}
	for name, c := range map[string]struct {
		there []runtime.Object
		waits bool
	}{
		"it is back":         {[]runtime.Object{istiod(2, 1)}, false},
		"not yet":            {[]runtime.Object{istiod(2, 0)}, true},
		"it is to have none": {[]runtime.Object{istiod(0, 0)}, false},
		"it is gone":         {nil, false},
	} {
		err := servesAgain(briefly(t), fakecluster.New(c.there...), istiodObject)
		if (err != nil) != c.waits || err != nil && !strings.Contains(err.Error(), "wait for a ready pod of Deployment istio-system/istiod") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A control plane that a step takes away outlives the trial; a waypoint ends with it.
func TestAwayOutlasts(t *testing.T) {
	cluster := fakecluster.New(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "istiod", Namespace: "istio-system", Labels: map[string]string{"app": "istiod"}}})
	for _, c := range []struct {
		changes changer
		want    []journal.Object
	}{{&cordons{}, []journal.Object{istiodObject}}, {nil, nil}} {
		pods := &controlPods{kube: cluster, changes: c.changes, namespace: "istio-system", selector: "app=istiod"}
		step, err := pods.away(t.Context(), node.KindIstiod, &execution{}, nil)
		must.OK(t, err)
		if got := step.outlasting; !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}
