package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/study"
)

// MeshOptions say which mesh to install into, or remove from, a user's cluster.
type MeshOptions struct {
	Name     string // study.MeshIstio or study.MeshLinkerd
	Cluster  cluster.Options
	Linkerd  string   // where Linkerd comes from: a folder or a release
	Set      []string // settings of the mesh's own tool
	Official bool     // Istio's images come from a registry, not from here
	Hub, Tag string   // of Istio's official images
	// Timeout is for the work itself, Wait for another run that is at work in the cluster.
	Timeout, Wait time.Duration
}

// InstallMesh installs a mesh from its own charts, and records what it made, for
// [UninstallMesh]. It returns how long that took.
func InstallMesh(ctx context.Context, p Progress, m MeshOptions) (lab.Changed, time.Duration, error) {
	return m.occupy(ctx, p, "lab-install", func(ctx context.Context, config *rest.Config) (lab.Changed, error) {
		b, err := components.New(components.Options{Progress: p.Component})
		if err != nil {
			return lab.Changed{}, err
		}
		installation, images, err := m.installation(ctx, b)
		if err != nil {
			return lab.Changed{}, err
		}
		if err := checkNodes(ctx, config, images); err != nil {
			return lab.Changed{}, err
		}
		p.Say("%s: installing", m.Name)
		return installation.Add(ctx, config)
	})
}

// UninstallMesh removes what [InstallMesh] recorded. It returns how long that took.
func UninstallMesh(ctx context.Context, p Progress, m MeshOptions) (lab.Changed, time.Duration, error) {
	return m.occupy(ctx, p, "lab-uninstall", func(ctx context.Context, config *rest.Config) (lab.Changed, error) {
		if m.Name == study.MeshLinkerd {
			return lab.Remove(ctx, config, m.Name, linkerd.Namespace)
		}
		changed, err := lab.Remove(ctx, config, m.Name, istio.Namespace)
		if err != nil {
			return changed, err
		}
		return changed, istio.Sweep(ctx, config)
	})
}

// occupy takes the cluster for some work that has a time limit.
func (m *MeshOptions) occupy(ctx context.Context, p Progress, command string,
	work func(context.Context, *rest.Config) (lab.Changed, error)) (changed lab.Changed, took time.Duration, err error) {
	config, err := cluster.Reach(ctx, m.Cluster)
	if err != nil {
		return changed, 0, err
	}
	claim := Claim{Config: config, Run: CommandRun(command), Wait: m.Wait, Revert: true}
	err = Occupy(ctx, p, claim, func(ctx context.Context, _ *journal.Journal) (err error) {
		ctx, cancel := context.WithTimeoutCause(ctx, m.Timeout, fmt.Errorf("not done within %v (--timeout)", m.Timeout))
		defer cancel()
		began := time.Now()
		changed, err = work(ctx, config)
		took = time.Since(began)
		return err
	})
	return changed, took, err
}

// installation is the mesh ready to apply, and the images that the nodes must have
// because no registry does.
func (m *MeshOptions) installation(ctx context.Context, b *components.Builder) (lab.Installation, []string, error) {
	if m.Name == study.MeshLinkerd {
		l, err := b.Linkerd(ctx, components.LinkerdOptions{Source: m.Linkerd, Set: m.Set, ByReference: true})
		if err != nil {
			return lab.Installation{}, nil, err
		}
		var images []string
		for _, image := range l.Images {
			if image.Path != "" {
				images = append(images, image.Ref)
			}
		}
		installation, err := linkerd.Installation(l)
		return installation, images, err
	}
	o := components.ManifestOptions{Set: append(istio.ManifestSettings(), m.Set...), Official: m.Official, Hub: m.Hub,
		Tag: m.Tag, ByReference: true}
	manifests, err := b.Manifests(ctx, o)
	if err != nil {
		return lab.Installation{}, nil, err
	}
	var images []string
	if !o.Official {
		images = []string{components.IstioHub + "/pilot:" + components.IstioTag, components.ProxyRef("")}
	}
	installation, err := istio.Installation(manifests)
	return installation, images, err
}

// checkNodes refuses images that a node which takes pods does not have.
func checkNodes(ctx context.Context, config *rest.Config, images []string) error {
	if len(images) == 0 {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("look for images on the cluster's nodes: %w", err)
	}
	missing := lacking(nodes.Items, images)
	if len(missing) > 0 {
		return errs.WithHint(errs.WithCode(errors.Join(missing...), errs.CodeUsage),
			"use images from a registry: --images official, or a release of Linkerd (--linkerd edge)")
	}
	return nil
}

// lacking names the nodes that take pods and lack images. A node that only simulates pods
// needs none.
func lacking(nodes []corev1.Node, images []string) []error {
	var missing []error
	for _, node := range nodes {
		if node.Spec.Unschedulable || node.Annotations["kwok.x-k8s.io/node"] != "" {
			continue
		}
		var has []string
		for _, image := range node.Status.Images {
			has = append(has, image.Names...)
		}
		lacks := slices.DeleteFunc(slices.Clone(images), func(ref string) bool { return slices.Contains(has, ref) })
		if len(lacks) > 0 {
			missing = append(missing, fmt.Errorf("node %s has no image %s, which is assembled here and in no registry", node.Name, strings.Join(lacks, ", ")))
		}
	}
	return missing
}
