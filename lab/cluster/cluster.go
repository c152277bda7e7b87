// Package cluster makes a lab of any Kubernetes cluster that a kubeconfig reaches:
// the user's own, or a local lab treated like a foreign cluster.
//
// [Open] reads the kubeconfig, asks the API server (by SelfSubjectAccessReview)
// whether this user has the required rights, and reports all missing rights at
// once. It changes nothing in the cluster.
package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
)

// inCluster stands for the context of a pod's service account.
const inCluster = "in-cluster"

// Options of [Open].
type Options struct {
	// Kubeconfig is the path of a kubeconfig. Default: $KUBECONFIG or
	// ~/.kube/config, read as kubectl does, otherwise the service account of this
	// process's pod.
	Kubeconfig string
	// Context is the context to use. Default: the file's current one.
	Context string
	// Images are the images that pods may use. Meshtrial is required; the mesh
	// keeps the images it was installed with.
	Images lab.Images
	// Needs are the rights that [Open] checks, with namespaces: see
	// [rights.Place].
	Needs []rights.Feature
}

// Lab is a lab in an existing cluster.
type Lab struct {
	config     *rest.Config
	kubeconfig string
	files      []string // files that make up the kubeconfig
	context    string
	version    string
	images     lab.Images
	notes      []string
}

var _ lab.Lab = (*Lab)(nil)

// Kind returns lab.KindCluster.
func (l *Lab) Kind() string { return lab.KindCluster }

// RESTConfig returns a client configuration for the kubeconfig's user.
func (l *Lab) RESTConfig() *rest.Config { return rest.CopyConfig(l.config) }

// Kubeconfig returns the path of the kubeconfig.
func (l *Lab) Kubeconfig() string { return l.kubeconfig }

// Context returns the kubeconfig's context in use.
func (l *Lab) Context() string { return l.context }

// Images returns the images given to [Open].
func (l *Lab) Images() lab.Images { return l.images }

// Notes describes what the run does without because optional rights are missing.
func (l *Lab) Notes() []string { return l.notes }

// Close leaves the cluster as it is.
func (l *Lab) Close() error { return nil }

// Stays returns true: the cluster belongs to the user.
func (l *Lab) Stays() bool { return true }

// askTime bounds the cluster's answers during the preflight: its version and the
// user's rights.
const askTime = 30 * time.Second

// Found is a reachable cluster.
type Found struct {
	Kube             kubernetes.Interface
	Context, Version string // of the kubeconfig, and of the API server
	lab              *Lab
}

// Find reads the kubeconfig and checks that the cluster answers. It does not check
// rights.
func Find(ctx context.Context, o Options) (*Found, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	l, err := load(o)
	if err != nil {
		return nil, err
	}
	kubernetes.Prepare(l.config)
	client, err := kubernetes.NewForConfig(l.config)
	if err != nil {
		return nil, errs.Usage("kubeconfig: %v", err)
	}
	if err := l.reach(ctx, client); err != nil {
		return nil, err
	}
	return &Found{Kube: client, Context: l.context, Version: l.version, lab: l}, nil
}

// Reach finds the cluster and checks rights as [Open] does, for commands that run
// no pods.
func Reach(ctx context.Context, o Options) (*rest.Config, error) {
	l, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return l.config, nil
}

// Open finds the cluster and refuses a user who lacks a required right.
func Open(ctx context.Context, o Options) (*Lab, error) {
	found, err := Find(ctx, o)
	if err != nil {
		return nil, err
	}
	l := found.lab
	if err := l.preflight(ctx, found.Kube, o.Needs); err != nil {
		return nil, err
	}
	return l, nil
}

// preflight refuses a user who lacks a required right, and notes missing optional
// ones.
func (l *Lab) preflight(ctx context.Context, client kubernetes.Interface, needs []rights.Feature) error {
	needs, notes, err := Resolve(ctx, client, needs)
	if err != nil {
		return err
	}
	l.notes = notes
	checked, err := Ask(ctx, client, needs)
	if err != nil {
		return err
	}
	var lacks []string
	for i := range checked {
		for k := range checked[i].Answers {
			a := &checked[i].Answers[k]
			switch {
			case a.Needed():
				lacks = append(lacks, checked[i].Name+": "+a.String())
			case len(a.Missing) > 0:
				l.notes = append(l.notes, fmt.Sprintf("this user may not %s: %s", a, a.Without))
			}
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return errs.WithHint(errs.Usage("this user lacks rights:\n  %s", strings.Join(lacks, "\n  ")),
		"`meshtrial cluster check STUDY --manifests` prints roles that an administrator can apply; or use another context")
}
