package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// load reads the kubeconfig.
func load(ctx context.Context, o Options) (*Lab, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if o.Kubeconfig != "" {
		rules.ExplicitPath = o.Kubeconfig
	}
	piped, err := endless(rules.GetLoadingPrecedence())
	if err != nil {
		return nil, err
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	if piped != "" {
		config, err := loadPipe(ctx, piped)
		switch {
		case errors.Is(err, context.Canceled):
			return nil, err
		case err != nil:
			return nil, errs.WithHint(errs.Usage("kubeconfig: %v", err), nameReadable)
		}
		loader = clientcmd.NewNonInteractiveClientConfig(*config, o.Context, overrides, nil)
	}
	l := &Lab{images: o.Images, context: o.Context, kubeconfig: kubeconfigPath(rules), files: existing(rules.GetLoadingPrecedence())}
	raw, err := loader.RawConfig()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, l.none(rules)
	case err != nil:
		return nil, errs.WithHint(errs.Usage("kubeconfig: %v", err), nameReadable)
	}
	if len(raw.Contexts) == 0 && o.Kubeconfig == "" && o.Context == "" {
		if config, err := rest.InClusterConfig(); err == nil { // a pod with a service account
			l.inPod(config)
			return l, nil
		}
	}
	if len(raw.Contexts) == 0 {
		return nil, l.none(rules)
	}
	if err := l.choose(&raw); err != nil {
		return nil, err
	}
	if l.config, err = loader.ClientConfig(); err != nil {
		return nil, errs.WithHint(errs.Usage("%s cannot be used: %v", l.where(), err), "mend the kubeconfig, or name another context with --context")
	}
	return l, nil
}

// inPod takes the service account of the pod that this is; files without contexts have no
// part in that.
func (l *Lab) inPod(config *rest.Config) { l.config, l.context, l.files = config, inCluster, nil }

// Hints on which kubeconfig to name.
const (
	nameOne      = "name one with --kubeconfig FILE, or set KUBECONFIG"
	nameReadable = "name one that kubectl reads, with --kubeconfig FILE or KUBECONFIG"
)

// none is the error where no file names a cluster.
func (l *Lab) none(rules *clientcmd.ClientConfigLoadingRules) error {
	why := "there is no file " + strings.Join(rules.GetLoadingPrecedence(), ", nor ")
	if len(l.files) > 0 {
		why = strings.Join(l.files, ", ") + " has no contexts"
	}
	return errs.WithHint(errs.Usage("no kubeconfig: %s", why), nameOne)
}

// choose takes the context that was asked for or else the current one, and refuses one
// that names no cluster.
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
		err = errs.Usage("the current context of kubeconfig %s is %q, which is not in it", files, l.context)
	case raw.Clusters[chosen.Cluster] == nil:
		err = errs.Usage("%s names cluster %q, which is not in it", l.where(), chosen.Cluster)
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

// maxKubeconfig bounds a kubeconfig, in bytes: client-go reads it whole.
const maxKubeconfig = 16 << 20

// endless refuses files that client-go would read until memory is full. A pipe, of which
// nobody knows how long it is, it names.
func endless(paths []string) (piped string, err error) {
	for _, path := range paths {
		f, err := os.Stat(path)
		switch {
		case err != nil: // client-go says so
		case f.Mode()&os.ModeDevice != 0 || f.Size() > maxKubeconfig:
			return "", errs.WithHint(errs.Usage("kubeconfig: %s is a device, or larger than %d bytes", path, maxKubeconfig), "name a kubeconfig with --kubeconfig FILE")
		case f.Mode()&os.ModeNamedPipe != 0 && len(paths) > 1:
			return "", errs.WithHint(errs.Usage("kubeconfig: %s is a pipe, and one of several files", path), "a pipe is read if it is the only one: --kubeconfig FILE")
		case f.Mode()&os.ModeNamedPipe != 0:
			piped = path
		}
	}
	return piped, nil
}

// loadPipe reads a kubeconfig from a pipe, until ctx ends at the latest.
func loadPipe(ctx context.Context, path string) (*clientcmdapi.Config, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { f.Close() })()
	text, err := io.ReadAll(io.LimitReader(f, maxKubeconfig+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s has not come to its end: %w", path, context.Cause(ctx))
	case err != nil:
		return nil, err
	case len(text) > maxKubeconfig:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxKubeconfig)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// existing are those of files that are there, by their whole paths.
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

// kubeconfigPath names the first kubeconfig file that exists.
func kubeconfigPath(rules *clientcmd.ClientConfigLoadingRules) string {
	if files := existing(rules.GetLoadingPrecedence()); len(files) > 0 {
		return files[0]
	}
	return rules.GetDefaultFilename()
}
