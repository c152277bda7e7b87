package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/app"
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

// clusterMesh is a mesh to install into, or to take from, a cluster.
type clusterMesh struct {
	name    string
	cluster cluster.Options
	linkerd string   // a folder or a release
	set     []string // settings of the mesh's own tool
	images  string   // built or official
	hub     string
	tag     string
	timeout time.Duration
	wait    time.Duration
	json    bool
}

// installed is what `lab install --json` and `lab uninstall --json` print.
type installed struct {
	Schema  int      `json:"schema"`
	Mesh    string   `json:"mesh"`
	Objects int      `json:"objects"` // made, or deleted
	Kept    []string `json:"kept"`    // objects left as they were, and why
	Seconds float64  `json:"s"`
}

func (m *clusterMesh) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	addKubeconfigFlags(flags, &m.cluster.Kubeconfig, &m.cluster.Context, "")
	flags.DurationVar(&m.timeout, "timeout", 5*time.Minute, "give up after this long")
	flags.DurationVar(&m.wait, "wait", 0, waitUsage)
	flags.BoolVar(&m.json, "json", false, "print JSON")
}

// takes reads the arguments of both commands.
func (m *clusterMesh) takes(args []string) error {
	if m.name = args[0]; m.name != study.MeshIstio && m.name != study.MeshLinkerd {
		return errs.WithHint(errs.Usage("unknown mesh %q", m.name), "istio or linkerd")
	}
	if m.timeout <= 0 {
		return errs.Usage("--timeout %v: must be more than 0", m.timeout)
	}
	return nil
}

func newLabInstallCommand(env *Env) *cobra.Command {
	var m clusterMesh
	cmd := &cobra.Command{
		Use:   "install MESH",
		Short: "Install Istio or Linkerd into the cluster of a kubeconfig",
		Long: "Install a mesh from its own charts into a cluster without one, and record what was created there, so\n" +
			"that `meshtrial lab uninstall` removes exactly that. On this machine `meshtrial lab up` does it for you.\n\n" +
			"The cluster's nodes pull official images. Images assembled here (--images built, --linkerd DIR) need\n" +
			"to be on every node, as in a local lab.",
		Example: "  meshtrial lab install linkerd --linkerd edge --kubeconfig staging.yaml\n" +
			"  meshtrial run mesh-comparison --lab cluster --kubeconfig staging.yaml --image registry.example/meshtrial:1",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := m.takes(args); err != nil {
				return err
			}
			if err := m.checkSource(); err != nil {
				return err
			}
			return m.act(cmd.Context(), env, "install", m.install)
		},
	}
	m.flags(cmd)
	cmd.Flags().StringVar(&m.images, "images", "official", "where Istio's images come from: official (a registry) or built (here)")
	cmd.Flags().StringVar(&m.hub, "hub", "", "registry and folder of Istio's official images (default "+components.IstioHub+")")
	cmd.Flags().StringVar(&m.tag, "tag", "", "tag of Istio's official images, or `TAG@sha256:PILOT,sha256:PROXYV2` to pin them")
	cmd.Flags().StringVar(&m.linkerd, "linkerd", "", "where Linkerd comes from: a folder with its programs and charts, or a release (default $"+app.LinkerdVariable+" or edge)")
	cmd.Flags().StringArrayVar(&m.set, "set", nil, "setting of the installation, `NAME=VALUE` as in istioctl or helm install --set; may be repeated")
	return cmd
}

func newLabUninstallCommand(env *Env) *cobra.Command {
	var m clusterMesh
	cmd := &cobra.Command{
		Use:   "uninstall MESH",
		Short: "Remove a mesh that lab install made, and nothing else",
		Long: "Delete what `meshtrial lab install` recorded: webhooks first, the namespace last. CRDs that still\n" +
			"have objects stay, with their objects.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := m.takes(args); err != nil {
				return err
			}
			return m.act(cmd.Context(), env, "uninstall", m.uninstall)
		},
	}
	m.flags(cmd)
	return cmd
}

// checkSource refuses flags that contradict each other, and finds where
// Linkerd comes from.
func (m *clusterMesh) checkSource() error {
	switch {
	case m.images != "built" && m.images != "official":
		return errs.Usage("--images must be built or official, not %q", m.images)
	case m.name == study.MeshIstio && m.linkerd != "":
		return errs.Usage("--linkerd does not apply to istio")
	case m.name == study.MeshLinkerd && (m.hub != "" || m.tag != "" || m.images == "built"):
		return errs.Usage("--images, --hub and --tag name Istio's images: --linkerd says where Linkerd's come from")
	case m.images == "built" && (m.hub != "" || m.tag != ""):
		return errs.Usage("--hub and --tag require --images official")
	case m.name == study.MeshIstio:
		return components.CheckTag(m.tag)
	}
	meshes := app.LabMeshes{Names: []string{m.name}, Linkerd: m.linkerd}
	if meshes.Resolve(true) != nil { // nothing says so
		meshes.Linkerd = "edge"
	}
	m.linkerd = meshes.Linkerd
	return nil
}

// act does something to the cluster, which is this command's meanwhile, and says
// what came of it.
func (m *clusterMesh) act(ctx context.Context, env *Env, did string, do func(context.Context, *Env, *rest.Config) (lab.Changed, error)) error {
	config, err := cluster.Reach(ctx, m.cluster)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	defer p.Clear()
	var changed lab.Changed
	began := time.Now()
	claim := app.Claim{Config: config, Run: app.CommandRun("lab-" + did), Wait: m.wait, Revert: true}
	err = app.Occupy(ctx, p, claim, func(ctx context.Context, _ *journal.Journal) (err error) {
		began = time.Now()
		ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, fmt.Errorf("not done within %v (--timeout)", m.timeout))
		defer cancel()
		changed, err = do(ctx, env, config)
		return err
	})
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	if m.json {
		return writeJSON(env.Stdout, installed{1, m.name, changed.Objects, append([]string{}, changed.Kept...), took})
	}
	fmt.Fprintf(env.Stdout, "%s %sed after %.1f s: %d objects\n", m.name, did, took, changed.Objects)
	for _, kept := range changed.Kept {
		fmt.Fprintf(env.Stdout, "  left as it is: %s\n", kept)
	}
	return nil
}

func (m *clusterMesh) install(ctx context.Context, env *Env, config *rest.Config) (lab.Changed, error) {
	b, line, err := newBuilder(env, "")
	if err != nil {
		return lab.Changed{}, err
	}
	defer line.Clear()
	installation, images, err := m.made(ctx, b)
	if err != nil {
		return lab.Changed{}, err
	}
	if err := onNodes(ctx, config, images); err != nil {
		return lab.Changed{}, err
	}
	line.Say("%s: installing", m.name)
	return installation.Add(ctx, config)
}

// made is the mesh ready to apply, and the images that the nodes must have
// because no registry does.
func (m *clusterMesh) made(ctx context.Context, b *components.Builder) (lab.Installation, []string, error) {
	if m.name == study.MeshLinkerd {
		l, err := b.Linkerd(ctx, components.LinkerdOptions{Source: m.linkerd, Set: m.set, ByReference: true})
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
	o := components.ManifestOptions{Set: append(istio.ManifestSettings(), m.set...), Official: m.images == "official", Hub: m.hub, Tag: m.tag, ByReference: true}
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

func (m *clusterMesh) uninstall(ctx context.Context, _ *Env, config *rest.Config) (lab.Changed, error) {
	if m.name == study.MeshLinkerd {
		return lab.Remove(ctx, config, m.name, linkerd.Namespace)
	}
	changed, err := lab.Remove(ctx, config, m.name, istio.Namespace)
	if err != nil {
		return changed, err
	}
	return changed, istio.Sweep(ctx, config)
}

// onNodes says which of the images a node that takes pods has not.
func onNodes(ctx context.Context, config *rest.Config, images []string) error {
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
		return errs.WithHint(errs.WithCode(errors.Join(missing...), errs.CodeUsage), "use images from a registry: --images official, or a release of Linkerd (--linkerd edge)")
	}
	return nil
}

// lacking says which nodes that take pods have not all of the images. A node
// that only simulates pods needs none.
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
