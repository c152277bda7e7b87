package cli

import (
	"context"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/study"
)

// labInventory lists what is in a running lab; see [app.ReadInventory].
func labInventory(ctx context.Context, f scopeFlags, inv *generate.Inventory) (notes []string, err error) {
	config, err := f.where().Config(ctx, app.Rights(app.Places([]string{study.MeshIstio}, f.namespace), rights.Reach, rights.Scope, rights.Generate))
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return app.ReadInventory(ctx, kube, f.generate.revision, inv)
}
