// Package cluster makes a lab of any Kubernetes cluster that a kubeconfig
// reaches: the user's own, or a local lab's taken as a stranger's.
//
// [Open] reads the kubeconfig, asks the API server (by
// SelfSubjectAccessReview) whether this user may do all that a study does,
// and says everything that is missing at once. It changes nothing in the
// cluster.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
)

// Options of [Open].
type Options struct {
	// Kubeconfig is the path of a kubeconfig. Default: $KUBECONFIG, or
	// ~/.kube/config, as kubectl reads them.
	Kubeconfig string
	// Context is the context to use. Default: the file's current one.
	Context string
	// Images are what pods may use; Meshtrial is needed, the mesh's own
	// images are the ones it was installed with.
	Images lab.Images
}

// Lab is a cluster as a lab.
type Lab struct {
	config     *rest.Config
	kubeconfig string
	context    string
	version    string
	images     lab.Images
}

var _ lab.Lab = (*Lab)(nil)

// Kind is lab.KindCluster.
func (l *Lab) Kind() string { return lab.KindCluster }

// RESTConfig returns a client configuration of the kubeconfig's user.
func (l *Lab) RESTConfig() *rest.Config { return rest.CopyConfig(l.config) }

// Kubeconfig is the path of the kubeconfig.
func (l *Lab) Kubeconfig() string { return l.kubeconfig }

// Context is the kubeconfig's context in use.
func (l *Lab) Context() string { return l.context }

// ServerVersion is the version of the cluster's API server.
func (l *Lab) ServerVersion() string { return l.version }

// Images are the images given to [Open].
func (l *Lab) Images() lab.Images { return l.images }

// Close leaves the cluster as it is.
func (l *Lab) Close() error { return nil }

// Stays is true: a cluster is its user's.
func (l *Lab) Stays() bool { return true }

// permission is one thing that a study does.
type permission struct {
	verbs                        []string
	group, resource, subresource string
	why                          string
}

// needed is all that studies do in a cluster.
var needed = []permission{
	{[]string{"create", "get", "delete"}, "", "namespaces", "", "a run's namespace"},
	{[]string{"create", "patch", "get", "list", "delete"}, "apps", "deployments", "", "load generators and workers"},
	{[]string{"create", "patch", "get", "list", "delete"}, "apps", "daemonsets", "", "the observer on each node"},
	{[]string{"create", "patch", "get", "delete"}, "", "services", "", "the workers' addresses"},
	{[]string{"create", "patch", "get", "delete"}, "", "configmaps", "", "settings of roles"},
	{[]string{"create", "patch", "get", "delete"}, "", "serviceaccounts", "", "identities of workloads"},
	{[]string{"get", "list", "watch"}, "", "pods", "", "where roles run and whether they are ready"},
	{[]string{"get"}, "", "pods", "log", "what a role said when it failed"},
	{[]string{"create", "get"}, "", "pods", "portforward", "the roles' control servers"},
	{[]string{"get", "list"}, "", "nodes", "", "the machine that is measured"},
}

// Reach reads the kubeconfig and sees that the cluster answers. It asks for no
// rights: enough for what needs fewer of them than a study.
func Reach(ctx context.Context, o Options) (*rest.Config, error) {
	l, err := load(o)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(l.config)
	if err != nil {
		return nil, errs.Usage("kubeconfig: %v", err)
	}
	if err := l.reach(ctx, client); err != nil {
		return nil, err
	}
	return l.config, nil
}

// reach asks the cluster for its version, which everybody may.
func (l *Lab) reach(ctx context.Context, client kubernetes.Interface) error {
	version, err := client.Discovery().ServerVersion(ctx)
	if err != nil {
		return errs.WithHint(fmt.Errorf("the cluster of context %s does not answer: %w", l.context, err),
			"kubectl --kubeconfig %s --context %s version", l.kubeconfig, l.context)
	}
	l.version = version.GitVersion
	return nil
}

// load reads the kubeconfig.
func load(o Options) (*Lab, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if o.Kubeconfig != "" {
		rules.ExplicitPath = o.Kubeconfig
	}
	if err := endless(rules.GetLoadingPrecedence()); err != nil {
		return nil, err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errs.WithHint(errs.Usage("no kubeconfig: %v", err), "name one with --kubeconfig FILE, or set KUBECONFIG")
		}
		return nil, errs.WithHint(errs.Usage("kubeconfig: %v", err), "name one that kubectl reads, with --kubeconfig FILE or KUBECONFIG")
	}
	l := &Lab{images: o.Images, context: o.Context, kubeconfig: kubeconfigPath(rules)}
	if l.context == "" {
		l.context = raw.CurrentContext
	}
	if len(raw.Contexts) == 0 {
		return nil, errs.WithHint(errs.Usage("no kubeconfig: %s has no contexts, or does not exist", l.kubeconfig), "name one with --kubeconfig FILE, or set KUBECONFIG")
	}
	if _, ok := raw.Contexts[l.context]; !ok {
		names := slices.Sorted(maps.Keys(raw.Contexts))
		return nil, errs.WithHint(errs.Usage("the kubeconfig has no context %q", l.context), "it has: %s", strings.Join(names, ", "))
	}
	if l.config, err = loader.ClientConfig(); err != nil {
		return nil, errs.Usage("kubeconfig: %v", err)
	}
	return l, nil
}

// Open reads the kubeconfig, reaches the cluster, and checks permissions.
func Open(ctx context.Context, o Options) (*Lab, error) {
	l, err := load(o)
	if err != nil {
		return nil, err
	}
	l.config.QPS, l.config.Burst = 200, 400 // the server has its own limits
	client, err := kubernetes.NewForConfig(l.config)
	if err != nil {
		return nil, errs.Usage("kubeconfig: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := l.reach(ctx, client); err != nil {
		return nil, err
	}
	lacks, err := missing(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("ask the cluster what this user may do: %w", err)
	}
	if len(lacks) > 0 {
		return nil, errs.WithHint(errs.Usage("this user may not do all that a study needs:\n  %s", strings.Join(lacks, "\n  ")),
			"ask the cluster's administrator for these rights, or use another context")
	}
	return l, nil
}

// maxKubeconfig bounds a kubeconfig, in bytes: client-go reads it whole.
const maxKubeconfig = 16 << 20

// endless refuses files that client-go would read until memory is full.
func endless(paths []string) error {
	for _, path := range paths {
		f, err := os.Stat(path)
		if err != nil {
			continue // client-go says so
		}
		if f.Mode()&os.ModeDevice != 0 || f.Size() > maxKubeconfig {
			return errs.WithHint(errs.Usage("kubeconfig: %s is a device, or larger than %d bytes", path, maxKubeconfig), "name a kubeconfig with --kubeconfig FILE")
		}
	}
	return nil
}

// kubeconfigPath names the first kubeconfig file that exists.
func kubeconfigPath(rules *clientcmd.ClientConfigLoadingRules) string {
	for _, path := range rules.GetLoadingPrecedence() {
		if _, err := os.Stat(path); err == nil {
			if abs, err := filepath.Abs(path); err == nil {
				return abs
			}
			return path
		}
	}
	return rules.GetDefaultFilename()
}

// missing lists what this user may not do, in words.
func missing(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	denied := make([][]string, len(needed))
	for i, p := range needed {
		group.Go(func() error {
			for _, verb := range p.verbs {
				review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorization.ResourceAttributes{Verb: verb, Group: p.group, Resource: p.resource, Subresource: p.subresource,
						Namespace: metav1.NamespaceAll}}}
				answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				if !answer.Status.Allowed {
					denied[i] = append(denied[i], verb)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var lacks []string
	for i, p := range needed {
		if len(denied[i]) == 0 {
			continue
		}
		name := p.resource
		if p.subresource != "" {
			name += "/" + p.subresource
		}
		if p.group != "" {
			name += "." + p.group
		}
		lacks = append(lacks, fmt.Sprintf("%s %s (%s)", strings.Join(denied[i], ", "), name, p.why))
	}
	return lacks, nil
}
