package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/study"
)

// clusterMesh are the flags of lab install and lab uninstall.
type clusterMesh struct {
	app.MeshOptions
	images string // built or official
	json   bool
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
	addKubeconfigFlags(flags, &m.Cluster.Kubeconfig, &m.Cluster.Context, "")
	flags.DurationVar(&m.Timeout, "timeout", 5*time.Minute, "give up after this long")
	flags.DurationVar(&m.Wait, "wait", 0, waitUsage)
	flags.BoolVar(&m.json, "json", false, "print JSON")
}

// takes reads the arguments of both commands.
func (m *clusterMesh) takes(args []string) error {
	if m.Name = args[0]; m.Name != study.MeshIstio && m.Name != study.MeshLinkerd {
		return errs.WithHint(errs.Usage("unknown mesh %q", m.Name), "istio or linkerd")
	}
	if m.Timeout <= 0 {
		return errs.Usage("--timeout %v: must be more than 0", m.Timeout)
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
			m.Official = m.images == "official"
			p := newProgress(env.Stderr)
			defer p.Clear()
			changed, took, err := app.InstallMesh(cmd.Context(), p, m.MeshOptions)
			if err != nil {
				return err
			}
			return m.report(env, "installed", changed, took)
		},
	}
	m.flags(cmd)
	cmd.Flags().StringVar(&m.images, "images", "official", "where Istio's images come from: official (a registry) or built (here)")
	cmd.Flags().StringVar(&m.Hub, "hub", "", "registry and folder of Istio's official images (default "+components.IstioHub+")")
	cmd.Flags().StringVar(&m.Tag, "tag", "", "tag of Istio's official images, or `TAG@sha256:PILOT,sha256:PROXYV2` to pin them")
	cmd.Flags().StringVar(&m.Linkerd, "linkerd", "", "where Linkerd comes from: a folder with its programs and charts, or a release (default $"+app.LinkerdVariable+" or edge)")
	cmd.Flags().StringArrayVar(&m.Set, "set", nil, "setting of the installation, `NAME=VALUE` as in istioctl or helm install --set; may be repeated")
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
			p := newProgress(env.Stderr)
			defer p.Clear()
			changed, took, err := app.UninstallMesh(cmd.Context(), p, m.MeshOptions)
			if err != nil {
				return err
			}
			return m.report(env, "uninstalled", changed, took)
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
	case m.Name == study.MeshIstio && m.Linkerd != "":
		return errs.Usage("--linkerd does not apply to istio")
	case m.Name == study.MeshLinkerd && (m.Hub != "" || m.Tag != "" || m.images == "built"):
		return errs.Usage("--images, --hub and --tag name Istio's images: --linkerd says where Linkerd's come from")
	case m.images == "built" && (m.Hub != "" || m.Tag != ""):
		return errs.Usage("--hub and --tag require --images official")
	case m.Name == study.MeshIstio:
		return components.CheckTag(m.Tag)
	}
	meshes := app.LabMeshes{Names: []string{m.Name}, Linkerd: m.Linkerd}
	if meshes.Resolve(true) != nil { // nothing says so
		meshes.Linkerd = "edge"
	}
	m.Linkerd = meshes.Linkerd
	return nil
}

// report prints what was done.
func (m *clusterMesh) report(env *Env, did string, changed lab.Changed, took time.Duration) error {
	if m.json {
		return writeJSON(env.Stdout, installed{1, m.Name, changed.Objects, append([]string{}, changed.Kept...), took.Seconds()})
	}
	fmt.Fprintf(env.Stdout, "%s %s after %.1f s: %d objects\n", m.Name, did, took.Seconds(), changed.Objects)
	for _, kept := range changed.Kept {
		fmt.Fprintf(env.Stdout, "  left as it is: %s\n", kept)
	}
	return nil
}
