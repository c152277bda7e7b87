package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/components/push"
	"github.com/spf13/cobra"
)

// imagesFlags are the flags of `meshtrial lab components images`.
type imagesFlags struct {
	components.ImageOptions
	images, source, push string
	json                 bool
}

func newComponentsImages(env *Env) *cobra.Command {
	var f imagesFlags
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Assemble the images of a local lab, or pull the official ones; push that of the roles",
		Long: "Without flags it assembles all images of a local lab, as archives in the cache.\n\n" +
			"A cluster of yours needs only one of them, the roles' image: this program alone. --push\n" +
			"uploads it to a registry, with the credentials that docker and podman keep, and prints\n" +
			"the reference that `meshtrial run --lab cluster --image` takes. Without a registry,\n" +
			"--roles makes the archive that nodes import (docs/cluster.md).",
		Example: "  meshtrial lab components images --push registry.example/tools/meshtrial\n" +
			"  meshtrial lab components images --roles",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.MeshtrialBinary == "" {
				program, err := os.Executable()
				if err != nil {
					return err
				}
				f.MeshtrialBinary = program
			}
			if f.push != "" {
				return pushRoles(cmd.Context(), env, f)
			}
			return makeImages(cmd.Context(), env, f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print JSON, with whole digests")
	flags.StringVar(&f.images, "images", "built", "where istio/pilot and istio/proxyv2 come from: built (here) or official (a registry)")
	flags.StringSliceVar(&f.EnvoyVersions, "envoy", nil, "versions of Envoy to make proxy images of (default "+components.DefaultEnvoy+")")
	flags.StringVar(&f.MeshtrialBinary, "program", "", "static meshtrial to put into the roles' image (default: this one); the image is for its processor")
	flags.StringVar(&f.Hub, "hub", "", "registry and folder of the official images (default "+components.IstioHub+")")
	flags.StringVar(&f.Tag, "tag", "", "tag of the official images, or `TAG@sha256:PILOT,sha256:PROXYV2` to pin them")
	flags.StringVar(&f.source, "source", "", "lab/components/src of meshtrial's repository")
	flags.BoolVar(&f.RolesOnly, "roles", false, "assemble only the image of the roles, which needs neither sources nor packages")
	flags.StringVar(&f.push, "push", "", "push the image of the roles to `REGISTRY/NAME[:TAG]` (tag: this version's) and print its reference")
	return cmd
}

func (f *imagesFlags) check() error {
	switch f.images {
	case "built":
	case "official":
		f.Official = true
	default:
		return errs.Usage("--images must be built or official, not %q", f.images)
	}
	if !f.Official && (f.Hub != "" || f.Tag != "") {
		return errs.Usage("--hub and --tag require --images official")
	}
	if f.push != "" {
		f.RolesOnly = true
	}
	if f.RolesOnly && (f.Official || len(f.EnvoyVersions) > 0 || f.source != "") {
		return errs.WithHint(errs.Usage("--push and --roles are about the image of the roles alone: --images, --hub, --tag, --envoy and --source do not apply"),
			"leave those out")
	}
	return nil
}

func makeImages(ctx context.Context, env *Env, f imagesFlags) error {
	b, line, err := newBuilder(env, f.source)
	if err != nil {
		return err
	}
	made, err := b.Images(ctx, f.ImageOptions)
	line.Clear()
	if err != nil {
		return err
	}
	if f.json {
		return writeJSON(env.Stdout, struct {
			Schema string             `json:"schema"`
			Images []components.Image `json:"images"`
		}{componentsSchema, made})
	}
	w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "IMAGE\tDIGEST\tMB\tARCHIVE")
	for _, i := range made {
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\n", i.Ref, shorten(i.Digest), float64(i.Size)/1e6, i.Path)
	}
	return w.Flush()
}

// pushRoles prints what --image takes, and nothing else, for scripts.
func pushRoles(ctx context.Context, env *Env, f imagesFlags) error {
	to, err := push.Name(f.push, app.Version())
	if err != nil {
		return err
	}
	line := newProgress(env.Stderr)
	defer line.Clear()
	line.Say("packing %s", f.MeshtrialBinary)
	image, err := components.RolesImage(f.MeshtrialBinary)
	if err != nil {
		return err
	}
	line.Say("pushing %s", to.Name())
	ref, err := push.Image(ctx, image, to)
	line.Clear()
	if err != nil {
		return err
	}
	if f.json {
		_, digest, _ := strings.Cut(ref, "@")
		return writeJSON(env.Stdout, struct {
			Schema string `json:"schema"`
			Image  string `json:"image"`
			Digest string `json:"digest"`
		}{componentsSchema, ref, digest})
	}
	fmt.Fprintln(env.Stdout, ref)
	return nil
}
