package trial

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// charted returns an istiod as installed by its chart, with an autoscaler and its own mesh
// configuration, and the namespaces that levers depend on.
func charted(t *testing.T) (*apiServer, *rest.Config) {
	t.Helper()
	const namespace = istio.Namespace
	named := func(version, kind, name string, more map[string]any) map[string]any {
		out := map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"app": "istiod", "istio.io/rev": "default"}}}
		if kind == "Namespace" {
			out["metadata"] = map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}}
		}
		for key, value := range more {
			out[key] = value
		}
		return out
	}
	podLabels := map[string]any{"app": "istiod", "istio.io/rev": "default"}
	return serveAPI(t,
		named("v1", "Namespace", namespace, nil),
		named("v1", "ConfigMap", "istio", map[string]any{"data": map[string]any{"mesh": "accessLogFile: /dev/stdout\ndefaultConfig:\n  discoveryAddress: istiod.istio-system.svc:15012\n"}}),
		named("autoscaling/v2", "HorizontalPodAutoscaler", "istiod", map[string]any{"spec": map[string]any{"minReplicas": int64(1), "maxReplicas": int64(5),
			"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "istiod"}}}),
		named("apps/v1", "Deployment", "istiod", map[string]any{"spec": map[string]any{"replicas": int64(1), "selector": map[string]any{"matchLabels": podLabels},
			"template": map[string]any{"metadata": map[string]any{"labels": podLabels}, "spec": map[string]any{"containers": []any{map[string]any{
				"name": "discovery", "image": "example.com/pilot:1.31.0",
				"args":           []any{"discovery", "--monitoringAddr=:15014", "--keepaliveMaxServerConnectionAge", "30m"},
				"env":            []any{map[string]any{"name": "PILOT_PUSH_THROTTLE", "value": "50"}, map[string]any{"name": "CLUSTER_ID", "value": "Kubernetes"}},
				"readinessProbe": map[string]any{"periodSeconds": int64(3)},
				"resources":      map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "256Mi"}},
			}}}}}}),
	)
}

// opener finds the objects that the journal changes in a fake API server.
type opener struct{ kube dynamic.Interface }

func (o opener) Open(_ context.Context, object *unstructured.Unstructured, _ string) (dynamic.ResourceInterface, error) {
	group := object.GroupVersionKind()
	return o.kube.Resource(schema.GroupVersionResource{Group: group.Group, Version: group.Version, Resource: strings.ToLower(group.Kind) + "s"}).Namespace(object.GetNamespace()), nil
}

// Any two levels may follow one another in two trials: those of the first do not prevent setting the
// second's, which finds what it would find alone, although some are not valid in combination. In the
// end everything is as installed.
func TestLeversInEveryOrder(t *testing.T) {
	var all []mesh.Levers
	for _, cell := range []record.Cell{
		{"discovery_selectors": "mesh=shop"}, {"sidecar_scope": "mesh"}, {"debounce_after": "5s"}, {"debounce_max": "200ms"},
		{"istiod_cpu": "50m"}, {"istiod_cpu_request": "80m"}, {"istiod_cpu_request": "2"}, {"istiod_cpu": "1"}, {"sidecar_scope": "namespace"}, {"export_to": "."},
	} {
		l := mesh.LeversOf(cell)
		l.Namespaces = []string{"mm-1"}
		all = append(all, l)
	}
	server, config := charted(t)
	kube, err := dynamic.NewForConfig(config)
	must.OK(t, err)
	j, err := journal.Enter(t.Context(), journal.Options{Config: config, Open: opener{kube}, Holder: journal.Holder{Run: "orders"}})
	must.OK(t, err)
	defer func() {
		if err := j.Leave(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	plane, err := istio.NewControlPlane(t.Context(), config, "", j)
	must.OK(t, err)
	defer func() {
		if err := errors.Join(plane.Restore(t.Context()), plane.Close()); err != nil {
			t.Error(err)
		}
	}()
	written := func() map[string]string {
		out, err := server.written(journal.Namespace)
		must.OK(t, err)
		return out
	}
	installed := written()
	alone := make([]map[string]string, len(all))
	for i, l := range all {
		if _, err := plane.Apply(t.Context(), l, true); err != nil {
			t.Fatalf("%v: %v", l.Levels, err)
		}
		alone[i] = written()
		must.OK(t, plane.Restore(t.Context()))
		if now := written(); !maps.Equal(now, installed) {
			t.Fatalf("after %v it is not as installed:\n%v\n%v", l.Levels, now, installed)
		}
	}
	before := mesh.Levers{}
	for _, i := range walk(len(all)) {
		if _, err := plane.Apply(t.Context(), all[i], true); err != nil {
			t.Errorf("%v, then %v: %v", before.Levels, all[i].Levels, err)
		}
		if now := written(); !maps.Equal(now, alone[i]) {
			t.Errorf("%v after %v:\n%v\nalone:\n%v", all[i].Levels, before.Levels, now, alone[i])
		}
		before = all[i]
	}
}

// walk visits n things so that each follows each, including itself, once (a de Bruijn sequence).
func walk(n int) (out []int) {
	for i := range n {
		out = append(out, i)
		for j := i + 1; j < n; j++ {
			out = append(out, i, j)
		}
	}
	return append(out, 0)
}
