package app

import (
	"context"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// RunOptions says what to run and where, and how to report progress. Fields with a JSON name are
// passed to the pod of a detached run.
type RunOptions struct {
	Study  *study.Study `json:"-"`
	Source []byte       `json:"-"` // the study file as given
	// Limits are bounds by which trials are judged, NAME=VALUE.
	Limits []string `json:"limits,omitempty"`
	// Observe is the source of CPU and memory: [record.ObservedCgroup] or
	// [record.ObservedKubelet].
	Observe string `json:"observe,omitempty"`
	// Out is the run directory to create, or "" for a new one below runs. Resume is a run
	// directory to continue. At most one of them may be set.
	Out, Resume string `json:"-"`

	Where
	// Wait is how long to wait for another run that holds the cluster.
	Wait time.Duration `json:"wait,omitempty"`
	// Revision is the revision of the mesh's control plane to use, or "" if there is only one.
	Revision string `json:"revision,omitempty"`

	// For a lab on this machine. Nodes is 0 for as many nodes as the study needs.
	KeepLab bool         `json:"-"`
	Nodes   int          `json:"-"`
	Zones   []string     `json:"-"`
	Meshes  mesh.Choices `json:"-"` // mesh flags for a lab that is started

	// For a user's cluster.
	Image      string `json:"image,omitempty"` // of the roles
	PullSecret string `json:"pull_secret,omitempty"`
	// MeshWide allows changes that affect the whole mesh even while proxies of others are
	// connected.
	MeshWide bool `json:"mesh_wide,omitempty"`
	// OwnLab says that the cluster is the local lab of the user who began a detached run. The
	// run's pod sees it as an ordinary cluster.
	OwnLab bool `json:"own_lab,omitempty"`
	// detachedRun is the name of the detached run of which this is an attempt.
	detachedRun string

	Progress Progress `json:"-"`
	// Confirm asks for consent to the changes in a user's cluster that text lists. An error ends
	// the run before it changes anything.
	Confirm func(ctx context.Context, text string) error `json:"-"`
	// Metrics is the address at which the run's metrics are served, or "" for none. See
	// [openmetrics.Listen].
	Metrics string `json:"-"`
	// Event is called at each step of the run; see [runner.Options].
	Event func(*study.Plan, runner.Event) `json:"-"`
	// Begun is called with the run directory before the first measurement. May be nil.
	Begun func(dir string) `json:"-"`
	// Kept is called after each trial, once the trial is durable. An error ends the run. May be
	// nil.
	Kept func(context.Context) error `json:"-"`
	// Present shows what the run found, while the lab is still up.
	Present func(Analyzed) error `json:"-"`
}

// headerLab returns what a run's header says about its lab.
func (o *RunOptions) headerLab() string {
	if o.OwnLab {
		return lab.KindLocal
	}
	return o.Lab
}

// checkLab returns an error for an unknown kind of lab, and for names of an image or its Secret
// that no cluster would accept.
func (o *RunOptions) checkLab() error {
	switch {
	case o.Lab == lab.KindLocal:
		return nil
	case o.Lab != lab.KindCluster:
		return errs.WithHint(errs.Usage("unknown lab %q", o.Lab), "--lab takes local or cluster")
	case o.Image == "":
		return errs.WithHint(errs.Usage("--lab cluster requires the image for the pods of the load generator, the worker and the observer"),
			"`meshtrial lab components images --push REGISTRY/NAME` pushes it to a registry that the cluster can pull from; pass it with --image")
	}
	if _, err := name.ParseReference(o.Image); err != nil {
		return errs.WithHint(errs.Usage("--image %s is not a valid image name: %v", o.Image, err),
			"write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:..., as `meshtrial lab components images --push` prints it")
	}
	if o.PullSecret == "" {
		return nil
	}
	namespace, secret, _ := strings.Cut(qualified(o.PullSecret), "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(secret)) > 0 {
		return errs.WithHint(errs.Usage("--pull-secret %s is not a valid Secret name", o.PullSecret),
			"write NAME or NAMESPACE/NAME")
	}
	return nil
}

// qualified returns a Secret's name with its namespace, as kubectl accepts it.
func qualified(secret string) string {
	if secret == "" || strings.Contains(secret, "/") {
		return secret
	}
	return corev1.NamespaceDefault + "/" + secret
}

// ClusterImages returns the images of the roles in a user's cluster.
func ClusterImages(image, pullSecret string) lab.Images {
	return lab.Images{Meshtrial: image, PullSecret: qualified(pullSecret), PullPolicy: corev1.PullIfNotPresent}
}
