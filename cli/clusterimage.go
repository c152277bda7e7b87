package cli

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
)

// checkImage finds a name of an image, or of its Secret, that no cluster will
// take, before anything is made there.
func (f runFlags) checkImage() error {
	if _, err := name.ParseReference(f.image); err != nil {
		return errs.WithHint(errs.Usage("--image %s is not the name of an image: %v", f.image, err),
			"it is REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:..., as `meshtrial lab components images --push` prints it")
	}
	if f.pullSecret == "" {
		return nil
	}
	namespace, secret, _ := strings.Cut(pullSecretOf(f.pullSecret), "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(secret)) > 0 {
		return errs.WithHint(errs.Usage("--pull-secret %s is not the name of a Secret", f.pullSecret), "it is NAME, or NAMESPACE/NAME")
	}
	return nil
}

// pullSecretOf is a Secret with its namespace, as kubectl understands it.
func pullSecretOf(name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return corev1.NamespaceDefault + "/" + name
}

// clusterImages are the images that a user's cluster can pull.
func clusterImages(f runFlags) lab.Images {
	return lab.Images{Meshtrial: f.image, PullSecret: pullSecretOf(f.pullSecret), PullPolicy: corev1.PullIfNotPresent}
}
