package cli

import (
	"context"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/study"
)

// labProxies reads the configuration of a lab's running proxies; see [app.Proxies].
func labProxies(ctx context.Context, env *Env, f scopeFlags, o scope.Options, take func(scope.Proxy) error) (notes []string, err error) {
	config, err := f.where().Config(ctx, app.Rights(app.Places([]string{study.MeshIstio}, f.namespace), rights.Reach, rights.Scope))
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	line := newProgress(env.Stderr)
	defer line.Clear()
	read := app.Proxies{Namespace: f.namespace, Selector: f.selector, Most: f.proxies, Stats: f.stats, Choose: f.choose,
		Say: func(text string) { line.Say("%s", text) }, Dial: app.DialEach(config)}
	return read.Read(ctx, kube, o, take)
}
