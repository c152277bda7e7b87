package cli

import (
	"context"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// fitIstio finds the Istio of a revision, and refuses a plan that it cannot carry
// as it stands. Notes say what of others' will be in the study's figures.
func fitIstio(ctx context.Context, config *rest.Config, revision string, plan *study.Plan) (of istio.Revision, notes []string, err error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return of, nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return of, nil, err
	}
	return fitsIstio(ctx, kube, objects, revision, plan)
}

// fitsIstio is fitIstio with clients.
func fitsIstio(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, revision string, plan *study.Plan) (of istio.Revision, notes []string, err error) {
	asked, err := kinds.Asks(plan, study.MeshIstio)
	if err != nil {
		return of, nil, err
	}
	found, err := istio.ReadAsFound(ctx, kube, objects, revision, asked)
	if err == nil {
		err = found.Refuse(asked)
	}
	return found.Revision(), found.Beside(asked), err
}
