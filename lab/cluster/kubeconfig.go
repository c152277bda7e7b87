package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// load reads the kubeconfig.
func load(o Options) (*Lab, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	l := &Lab{images: o.Images, context: o.Context, kubeconfig: rules.GetDefaultFilename(), files: existing(rules.GetLoadingPrecedence())}
	if len(l.files) > 0 {
		l.kubeconfig = l.files[0]
	}
	raw, err := loader.RawConfig()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, l.noContexts(rules)
	case err != nil:
		return nil, errs.WithHint(errs.Usage("kubeconfig: %v", err), nameReadable)
	}
	if len(raw.Contexts) == 0 && o.Kubeconfig == "" && o.Context == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			l.useServiceAccount(config)
			return l, nil
		}
	}
	if len(raw.Contexts) == 0 {
		return nil, l.noContexts(rules)
	}
	if err := l.choose(&raw); err != nil {
		return nil, err
	}
	if l.config, err = loader.ClientConfig(); err != nil {
		return nil, errs.WithHint(errs.Usage("%s cannot be used: %v", l.where(), err), "fix the kubeconfig, or name another context with --context")
	}
	return l, nil
}

// useServiceAccount uses the service account of this process's pod. Kubeconfig
// files without contexts are ignored.
func (l *Lab) useServiceAccount(config *rest.Config) {
	l.config, l.context, l.files = config, inCluster, nil
}

// Hints on which kubeconfig to name.
const (
	nameOne      = "name one with --kubeconfig FILE, or set KUBECONFIG"
	nameReadable = "name one that kubectl can read with --kubeconfig FILE or KUBECONFIG"
)

// noContexts returns the error for kubeconfig files that name no cluster.
func (l *Lab) noContexts(rules *clientcmd.ClientConfigLoadingRules) error {
	why := "no file " + strings.Join(rules.GetLoadingPrecedence(), " or ")
	if len(l.files) > 0 {
		why = strings.Join(l.files, ", ") + " has no contexts"
	}
	return errs.WithHint(errs.Usage("no kubeconfig: %s", why), nameOne)
}

// choose selects the requested context, or else the current one. The context
// must name a cluster.
func (l *Lab) choose(raw *clientcmdapi.Config) error {
	asked := l.context != ""
	if !asked {
		l.context = raw.CurrentContext
	}
	files := strings.Join(l.files, ", ")
	var err error
	chosen := raw.Contexts[l.context]
	switch {
	case l.context == "":
		err = errs.Usage("kubeconfig %s has no current context", files)
	case chosen == nil && asked:
		err = errs.Usage("kubeconfig %s has no context %q", files, l.context)
	case chosen == nil:
		err = errs.Usage("the current context of kubeconfig %s is %q, which it does not define", files, l.context)
	case raw.Clusters[chosen.Cluster] == nil:
		err = errs.Usage("%s names cluster %q, which it does not define", l.where(), chosen.Cluster)
	default:
		return nil
	}
	return errs.WithHint(err, "name one of its contexts with --context: %s", strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
}

// where names the context in use and its files, for errors.
func (l *Lab) where() string {
	if l.context == inCluster && l.config != nil && len(l.files) == 0 {
		return "this pod's service account"
	}
	return fmt.Sprintf("context %s of kubeconfig %s", l.context, strings.Join(l.files, ", "))
}

// existing returns the absolute paths of the files that exist.
func existing(files []string) (out []string) {
	for _, path := range files {
		if _, err := os.Stat(path); err == nil {
			if abs, err := filepath.Abs(path); err == nil {
				path = abs
			}
			out = append(out, path)
		}
	}
	return out
}
