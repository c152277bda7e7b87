package trial

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// imagesLab is a lab that only supplies images.
type imagesLab struct{ lab.Lab }

func (imagesLab) Images() lab.Images { return lab.Images{Meshtrial: "roles"} }

// A real gateway is rolled out if a lever that proxies read at startup changes, and stays
// otherwise. The pod behind it, which has no proxy, always stays.
func TestGatewayMadeAnew(t *testing.T) {
	kube := fakecluster.New()
	m := &istio.Mesh{}
	c := &controlPlane{Site: &site.Site{Run: "run", Kube: kube}, o: &runner.Options{Lab: imagesLab{}, Mesh: m}}
	templates := func(cell record.Cell) (gateway, backend string) {
		t.Helper()
		must.OK(t, c.makeGateway(t.Context(), m, population.GatewayNamespace, mesh.LeversOf(cell)))
		text := map[string]string{}
		for _, name := range []string{roleGateway, roleBackend} {
			d, err := kube.AppsV1().Deployments(population.GatewayNamespace).Get(t.Context(), name, metav1.GetOptions{})
			must.OK(t, err)
			template, err := json.Marshal(d.Spec.Template)
			must.OK(t, err)
			text[name] = string(template)
		}
		return text[roleGateway], text[roleBackend]
	}
	gateway, backend := templates(nil)
	for _, tt := range []struct {
		cell record.Cell
		anew bool
	}{
		{record.Cell{study.FactorDebounceAfter: "500ms"}, false},
		{record.Cell{controlplane.FactorDelta: "false"}, true},
		{record.Cell{controlplane.FactorDelta: "false", controlplane.FactorHBONE: "true"}, true},
		{record.Cell{controlplane.FactorDelta: "false", controlplane.FactorHBONE: "true", controlplane.FactorPushThrottle: "20"}, false},
		{nil, true},
	} {
		now, behind := templates(tt.cell)
		if now != gateway != tt.anew || behind != backend {
			t.Errorf("%v: made anew %v, the pod behind it %v", tt.cell, now != gateway, behind != backend)
		}
		gateway = now
	}
}

// Real pods that a cell does not have are removed, also if a connection was lost since they were made.
func TestRealPodsGo(t *testing.T) {
	kube := fakecluster.New(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.RoleReal, Namespace: "a"}})
	c := &controlPlane{Site: &site.Site{Run: "run", Kube: kube}, deployedReal: true, reals: []site.Pod{{}}}
	c.forget()
	must.OK(t, c.ensureReal(t.Context(), controlplane.Levels{}, mesh.Levers{Namespaces: []string{"a"}}, ""))
	if all, err := kube.AppsV1().Deployments("a").List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
