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
// as it stands.
func fitIstio(ctx context.Context, config *rest.Config, revision string, plan *study.Plan) (istio.Revision, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return istio.Revision{}, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return istio.Revision{}, err
	}
	found, err := fitsIstio(ctx, kube, objects, revision, plan)
	return found.Revision(), err
}

// fitsIstio is fitIstio with clients.
func fitsIstio(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, revision string, plan *study.Plan) (istio.AsFound, error) {
	asked, err := kinds.Asks(plan, study.MeshIstio)
	if err != nil {
		return istio.AsFound{}, err
	}
	found, err := istio.ReadAsFound(ctx, kube, objects, revision, asked)
	if err != nil {
		return found, err
	}
	return found, found.Refuse(asked)
}
