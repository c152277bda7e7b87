package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A cluster must have the revisions between which a study moves; otherwise the run is rejected
// with what to install. In a local lab the run creates the revision that a step brings up.
func TestMissingRevisions(t *testing.T) {
	plan := shippedPlans(t)["canary-upgrade"]
	for name, tt := range map[string]struct {
		revisions []string
		serves    bool // their injectors exist
		kind      string
		missing   []string
		err, hint string
	}{
		"a lab without it":               {[]string{""}, true, lab.KindLocal, []string{"canary"}, "", ""},
		"a lab with it":                  {[]string{"", "canary"}, true, lab.KindLocal, nil, "", ""},
		"a cluster with it":              {[]string{"", "canary"}, true, lab.KindCluster, nil, "", ""},
		"a cluster without it":           {[]string{"", "old"}, true, lab.KindCluster, nil, "revision canary, but this cluster has the revisions default, old", "istioctl install --set revision=canary"},
		"a lab to be detached in":        {[]string{""}, true, kindDetached, nil, "a detached run installs none", "without --detach"},
		"a lab that has it, detached":    {[]string{"", "canary"}, true, kindDetached, nil, "", ""},
		"a cluster where it does not go": {[]string{"", "canary"}, false, lab.KindCluster, nil, "no working sidecar injector of revision canary", "kubectl get mutating"},
	} {
		t.Run(name, func(t *testing.T) {
			all := theirs{revisions: tt.revisions}.objects(t)
			for _, o := range all {
				hooks, ok := o.(*admission.MutatingWebhookConfiguration)
				if !ok || !tt.serves {
					continue
				}
				for i := range hooks.Webhooks {
					hooks.Webhooks[i].ClientConfig.CABundle = []byte("root")
				}
			}
			kube, objects := fakecluster.New(all...), rootClient(t)
			m := &istio.Mesh{}
			must.OK(t, fitsIstio(t, m, kube, objects, "default", plan))
			asked, err := kinds.Asks(plan, study.MeshIstio)
			must.OK(t, err)
			missing, err := missingRevisions(t.Context(), kube, objects, m, asked, tt.kind, plan)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(errs.Hint(err), tt.hint) {
					t.Errorf("%q, %v, hint %q", missing, err, errs.Hint(err))
				}
				return
			}
			if err != nil || !slices.Equal(missing, tt.missing) {
				t.Errorf("%q, %v", missing, err)
			}
		})
	}
	if err := lacksRevision("canary", []string{"default"}, lab.KindLocal, false); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "revision: {name: canary}") {
		t.Errorf("moved to one that no step brings up: %v, %q", err, errs.Hint(err))
	}
}

// Steps that need a second version, or remove an istiod, reject one that the run did not install
// for that.
func TestFitsInstalled(t *testing.T) {
	first := mesh.Plane{Revision: "default", Version: "1.31.1"}
	for says, tt := range map[string]struct {
		step    fault.Step
		version string
	}{
		"":                                {fault.Step{Action: &fault.Revision{Name: "canary", Istio: fault.Second}}, "1.30.2"},
		"with the version of revision de": {fault.Step{Action: &fault.Revision{Name: "canary", Istio: fault.Second}}, "1.31.1"},
		"a run removes no istiod":         {fault.Step{Action: &fault.Revision{Name: "canary"}, For: time.Minute}, "1.30.2"},
	} {
		err := fitsInstalled(&fault.Timeline{Steps: []fault.Step{tt.step}}, "canary", first, mesh.Plane{Revision: "canary", Version: tt.version})
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || errs.Hint(err) == "" || errs.Code(err) != errs.CodeUsage) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
