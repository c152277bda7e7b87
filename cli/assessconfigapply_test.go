package cli

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// sidecarCluster has Sidecars, and writes down what a journal is asked for.
type sidecarCluster struct {
	*dynamicfake.FakeDynamicClient
	did    []string
	breaks string    // the step that fails
	stays  error     // of Keep, when it was decided
	until  time.Time // how long Restore may take
}

var sidecarsOfAPI = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"}

func newSidecarCluster(t *testing.T, existing ...generate.Step) *sidecarCluster {
	t.Helper()
	c := &sidecarCluster{FakeDynamicClient: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{sidecarsOfAPI: "SidecarList"})}
	for _, s := range existing {
		if s.Before == nil {
			continue
		}
		o := (&unstructured.Unstructured{Object: s.Before}).DeepCopy()
		must.OK(t, must.Err(c.Resource(sidecarsOfAPI).Namespace(s.Namespace).Create(t.Context(), o, metav1.CreateOptions{})))
	}
	return c
}

func (c *sidecarCluster) Open(_ context.Context, _ *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	return c.Resource(sidecarsOfAPI).Namespace(namespace), nil
}

func (c *sidecarCluster) do(what string) error {
	c.did = append(c.did, what)
	if what == c.breaks {
		return errors.New("admission webhook denied the request")
	}
	return nil
}

func (c *sidecarCluster) Apply(_ context.Context, o *unstructured.Unstructured, _ string) ([]fields.Field, bool, error) {
	return nil, false, c.do("apply " + o.GetNamespace() + "/" + o.GetName())
}

func (c *sidecarCluster) Remove(_ context.Context, o journal.Object, _ string) error {
	return c.do("remove " + o.Namespace + "/" + o.Name)
}

func (c *sidecarCluster) Restore(ctx context.Context, _ func(*journal.Entry) bool) ([]journal.Outcome, error) {
	c.until, _ = ctx.Deadline()
	return make([]journal.Outcome, len(c.did)-1), c.do("restore")
}

func (c *sidecarCluster) Keep(context.Context, string) (int, error) {
	if err := c.do("keep"); err != nil {
		return 0, err
	}
	return len(c.did), c.stays
}

func (c *sidecarCluster) Run() string { return "run" }

// generatedSteps are those of a mesh where the default is changed, a namespace and
// a workload get Sidecars, and one of before is of no use any more.
func generatedSteps(t *testing.T) []generate.Step {
	t.Helper()
	inv, obs := generate.NewInventory(), generate.NewObservations()
	read := func(text string) {
		must.OK(t, inv.Read(strings.NewReader(text), ""))
	}
	read(strings.Replace(meshOfTwo, `"items":[`, `"items":[
 {"kind":"Sidecar","metadata":{"namespace":"istio-system","name":"base"},"spec":{"egress":[{"hosts":["*/*"]}]}},
 {"kind":"Sidecar","metadata":{"namespace":"bank","name":"old","labels":{"meshtrial.dev/generated":"scope"}},"spec":{"workloadSelector":{"labels":{"app":"gone"}},"egress":[{"hosts":["./*"]}]}},
 {"kind":"Pod","metadata":{"namespace":"shop","name":"idle-0","labels":{"app":"idle"}},"spec":{"containers":[{"name":"istio-proxy"}]}},`, 1))
	obs.Call(generate.Edge{From: generate.Workload{Namespace: "shop", Name: "cart-0"}, Host: "pay.bank.svc.cluster.local", Count: 5, Sources: generate.Counters})
	r, err := generate.Generate(inv, obs, generate.Accounts{}, generate.Options{})
	must.OK(t, err)
	return r.Steps()
}

// Sidecars are applied the narrowest first and the mesh's last, and stay.
func TestApplySidecars(t *testing.T) {
	steps := generatedSteps(t)
	c := newSidecarCluster(t, steps...)
	must.OK(t, applySidecars(t.Context(), c, c, steps))
	if want := []string{"apply shop/idle-0", "apply shop/default", "apply istio-system/base", "remove bank/old", "keep"}; !slices.Equal(c.did, want) {
		t.Errorf("%q, want %q", c.did, want)
	}
	contains(t, journal.Text(sidecarPlan(steps)), "Sidecar shop/default: made (lets in bank/pay.bank.svc.cluster.local)",
		`spec.egress: [{"hosts":["*/*"]}] -> [{"hosts":["./*","istio-system/*"]}]`, "Sidecar bank/old: removed")
}

// Whatever step fails, nothing stays applied; nor does it where somebody else was
// faster.
func TestApplySidecarsOrNothing(t *testing.T) {
	steps := generatedSteps(t)
	for _, breaks := range []string{"apply shop/idle-0", "apply istio-system/base", "remove bank/old", "keep"} {
		c := newSidecarCluster(t, steps...)
		c.breaks = breaks
		began := time.Now()
		err := applySidecars(t.Context(), c, c, steps)
		if err == nil || !strings.Contains(err.Error(), "denied") || !strings.Contains(errs.Hint(err), "nothing stays applied") {
			t.Errorf("%s: %v (%s)", breaks, err, errs.Hint(err))
		}
		if c.until.Sub(began) < site.RestoreTimeout { // there may be hundreds
			t.Errorf("%s: it may take until %v, begun %v", breaks, c.until, began)
		}
		if n := len(c.did); c.did[n-1] != "restore" || c.did[n-2] != breaks {
			t.Errorf("%s: %q", breaks, c.did)
		}
	}
	for name, c := range map[string]struct {
		change func(at dynamic.NamespaceableResourceInterface) error
		says   string
	}{
		"changed": {func(at dynamic.NamespaceableResourceInterface) error {
			o, err := at.Namespace("istio-system").Get(t.Context(), "base", metav1.GetOptions{})
			if err == nil {
				err = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"hosts": []any{"./*"}}}, "spec", "egress")
			}
			if err == nil {
				_, err = at.Namespace("istio-system").Update(t.Context(), o, metav1.UpdateOptions{})
			}
			return err
		}, "Sidecar istio-system/base has been changed since it was read"},
		"made": {func(at dynamic.NamespaceableResourceInterface) error {
			_, err := at.Namespace("shop").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": map[string]any{"name": "default", "namespace": "shop"}}}, metav1.CreateOptions{})
			return err
		}, "Sidecar shop/default exists now"},
		"gone": {func(at dynamic.NamespaceableResourceInterface) error {
			return at.Namespace("bank").Delete(t.Context(), "old", metav1.DeleteOptions{})
		}, "Sidecar bank/old no longer exists"},
	} {
		at := newSidecarCluster(t, steps...)
		if err := c.change(at.Resource(sidecarsOfAPI)); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		err := applySidecars(t.Context(), at, at, steps)
		if err == nil || !strings.Contains(err.Error(), c.says) || at.did[len(at.did)-1] != "restore" {
			t.Errorf("%s: %v, %q", name, err, at.did)
		}
	}
}

// What was decided to stay is not reverted because the notes of it are not complete.
func TestApplySidecarsDecided(t *testing.T) {
	steps := generatedSteps(t)
	c := newSidecarCluster(t, steps...)
	c.stays = &journal.StaysError{Err: errors.New("the API server is gone")}
	err := applySidecars(t.Context(), c, c, steps)
	if err == nil || !strings.Contains(errs.Hint(err), "everything was applied") || !strings.HasSuffix(errs.Hint(err), "--run run") || c.did[len(c.did)-1] != "keep" {
		t.Errorf("%v, %q", err, c.did)
	}
}

// Without a list of what must not be left out nothing is applied, and without a lab
// there is nothing to apply to.
func TestApplyRefused(t *testing.T) {
	inv := generate.NewInventory()
	must.OK(t, inv.Read(strings.NewReader(meshOfTwo), ""))
	// A ConfigMap that is not the mesh's says nothing of it.
	read := func(kind, objects string) {
		t.Helper()
		must.OK(t, inv.Read(strings.NewReader(objects), kind))
	}
	read("ConfigMap", `{"kind":"ConfigMap","metadata":{"namespace":"istio-system","name":"istio-ca-root-cert"},"data":{"root-cert.pem":"x"}}`)
	err := (&applyFlags{}).complete(inv)
	if err == nil || !strings.Contains(err.Error(), "Namespace, ServiceEntry, VirtualService, Sidecar, EnvoyFilter, HTTPRoute, Deployment, StatefulSet, DaemonSet, CronJob, WorkloadEntry, ConfigMap are unknown") || errs.Code(err) != errs.CodeUsage ||
		!strings.Contains(errs.Hint(err), "meshtrial cluster check --feature assess-config ") {
		t.Error(err)
	}
	for _, kind := range whatMatters[:len(whatMatters)-1] {
		read(kind, `{"items":[]}`)
	}
	if err := (&applyFlags{}).complete(inv); err == nil || !strings.Contains(err.Error(), "of kind ConfigMap are unknown") {
		t.Error(err)
	}
	read("ConfigMap", `{"kind":"ConfigMap","metadata":{"namespace":"istio-system","name":"istio-canary"},"data":{"mesh":"{}"}}`)
	if err := (&applyFlags{}).complete(inv); err != nil {
		t.Error(err)
	}
	for args, says := range map[string]string{
		"--generate - --from x --apply":        "--apply applies only to a running mesh",
		"--lab cluster --apply":                "--apply requires --generate",
		"--generate - --lab cluster --yes":     "--yes requires --apply",
		"--generate - --lab cluster --wait 1m": "--wait requires --apply",
		"--generate - --from x --revision a":   "--revision applies only to a running mesh",
	} {
		_, _, err := runIn(t.Context(), append([]string{"assess", "config"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
	// Nobody at a terminal, and no --yes.
	if err := ask(t.Context(), &Env{Stdin: strings.NewReader("y\n"), Stderr: &bytes.Buffer{}}, newProgress(&bytes.Buffer{}), false, "this changes\n", false); err == nil || errs.Hint(err) != "--yes" {
		t.Error(err)
	}
}
