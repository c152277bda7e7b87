package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/components/push"
	"github.com/meshtrial/meshtrial/mesh"
)

const componentsSchema = "meshtrial/components/v1"

func newComponentsCommand(env *Env) *cobra.Command {
	return parentCommand("components", "List and build the programs and images of a local lab",
		"A local lab's programs come from three pinned sources: Go modules, which are built\n"+
			"here, Envoy's wheel, and Debian packages. Images are assembled from them. They are\n"+
			"built once and cached ($MESHTRIAL_CACHE, or meshtrial in the user's cache folder);\n"+
			"`meshtrial lab up` builds what is missing.",
		newComponentsList(env), newComponentsBuild(env), newComponentsImages(env))
}

func newComponentsList(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List every component with its pinned version, source and digest",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := components.New(components.Options{})
			if err != nil {
				return err
			}
			status, err := b.Status()
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(env.Stdout, struct {
					Schema     string              `json:"schema"`
					Cache      string              `json:"cache"`
					Components []components.Status `json:"components"`
				}{componentsSchema, b.CacheDir(), status})
			}
			w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tVERSION\tFROM\tDIGEST\tCACHED\tFOR")
			for _, s := range status {
				cached := "no"
				switch {
				case s.Cached:
					cached = "yes"
				case s.Optional:
					cached = "optional"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Version, s.Source, shorten(s.Digest), cached, s.Purpose)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with full digests")
	return cmd
}

func newComponentsBuild(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "build [NAME]...",
		Short: "Build and download missing components",
		Long:  "Build and download everything that a lab needs by default, or only the named programs;\nenvoy@VERSION selects another version of Envoy.",
		Example: "  meshtrial lab components build\n" +
			"  meshtrial lab components build istioctl envoy@1.39.0",
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			b, line, err := newBuilder(env)
			if err != nil {
				return err
			}
			set, err := b.Ensure(cmd.Context(), args...)
			line.Clear()
			if err != nil {
				return err
			}
			text := ""
			for _, p := range set.Programs() {
				text += fmt.Sprintf("%-24s %s\n", p.Name, p.Path)
			}
			return env.print(asJSON, struct {
				Schema   string               `json:"schema"`
				Seconds  float64              `json:"elapsed_s"`
				Programs []components.Located `json:"programs"`
				Versions []components.Version `json:"versions"`
			}{componentsSchema, time.Since(began).Seconds(), set.Programs(), set.Versions()}, text)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// shorten returns enough of a digest to distinguish it from others.
func shorten(digest string) string {
	kind, sum, ok := strings.Cut(digest, ":")
	if !ok {
		return "-"
	}
	return kind + ":" + sum[:min(12, len(sum))]
}

// newBuilder returns a builder that reports its progress on env's standard error.
func newBuilder(env *Env) (*components.Builder, *progress, error) {
	line := newProgress(env.Stderr)
	b, err := components.New(components.Options{Progress: line.Component})
	return b, line, err
}

// Component shows an event of package components. At a terminal, notes and components that became
// ready stay visible; elsewhere only notes are printed.
func (p *progress) Component(e components.Event) {
	switch e.Phase {
	case components.PhaseReady:
		if p.width > 0 {
			p.Note("%5.0f s  %s is ready", e.Elapsed.Seconds(), e.Component)
		}
	case components.PhaseNote:
		p.Note("%s: %s", e.Component, e.Detail)
	default:
		left := ""
		if e.Left > 0 {
			left = fmt.Sprintf(" (about %s left)", e.Left.Round(time.Second))
		}
		p.Say("%s %s%s  %s", e.Phase, e.Component, left, e.Detail)
	}
}

// imagesFlags holds the flags of `meshtrial lab components images`.
type imagesFlags struct {
	meshes        *meshFlags
	program, push string
	roles, json   bool
}

func newComponentsImages(env *Env) *cobra.Command {
	var f imagesFlags
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Assemble the images of a local lab, or pull the official ones; push the roles' image",
		Long: "Without flags it assembles all images of a local lab, as archives in the cache.\n\n" +
			"Your own cluster needs only the roles' image, which contains just this program. --push uploads\n" +
			"it to a registry, with the credentials stored by docker or podman, and prints the reference for\n" +
			"`meshtrial run --lab cluster --image`. Without a registry, --roles writes the archive that nodes\n" +
			"import (docs/cluster.md).",
		Example: "  meshtrial lab components images --push registry.example/tools/meshtrial\n" +
			"  meshtrial lab components images --roles",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if f.program == "" {
				program, err := os.Executable()
				if err != nil {
					return err
				}
				f.program = program
			}
			if f.push != "" {
				return pushRoles(cmd.Context(), env, f)
			}
			return makeImages(cmd.Context(), env, f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print JSON, with full digests")
	f.meshes = addMeshFlags(flags, mesh.LabImages)
	flags.StringVar(&f.program, "program", "", "statically linked meshtrial binary for the roles' image (default: this one); determines the image's architecture")
	flags.BoolVar(&f.roles, "roles", false, "assemble only the roles' image, which needs nothing else")
	flags.StringVar(&f.push, "push", "", "push the roles' image to `REGISTRY/NAME[:TAG]` (default tag: this version) and print its reference")
	return cmd
}

func (f *imagesFlags) check() error {
	if f.roles = f.roles || f.push != ""; f.roles && len(f.meshes.given) > 0 {
		return errs.WithHint(errs.Usage("--push and --roles affect only the roles' image: --images, --hub, --tag and --envoy do not apply"),
			"omit those flags")
	}
	return nil
}

func makeImages(ctx context.Context, env *Env, f imagesFlags) error {
	settings, err := app.ResolveMeshes(mesh.LabImages, nil, f.meshes.given)
	if err != nil {
		return err
	}
	b, line, err := newBuilder(env)
	if err != nil {
		return err
	}
	made, err := imagesOf(ctx, b, f, settings)
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

// imagesOf builds the images of a lab in which no mesh is installed.
func imagesOf(ctx context.Context, b *components.Builder, f imagesFlags, settings mesh.Choices) ([]components.Image, error) {
	if f.roles {
		return b.RolesArchive(ctx, f.program)
	}
	supplies, err := app.Supplies(ctx, nil, settings)
	if err != nil {
		return nil, err
	}
	made, err := b.Images(ctx, f.program)
	if err != nil {
		return nil, err
	}
	for _, s := range supplies {
		if s.Images == nil {
			continue
		}
		images, _, err := s.Images(ctx, b)
		if err != nil {
			return nil, err
		}
		made = append(made, images...)
	}
	return made, nil
}

// pushRoles prints the value for --image and nothing else, for use in scripts.
func pushRoles(ctx context.Context, env *Env, f imagesFlags) error {
	to, err := push.Name(f.push, app.Version())
	if err != nil {
		return err
	}
	line := newProgress(env.Stderr)
	defer line.Clear()
	line.Say("packing %s", f.program)
	image, err := components.RolesImage(ctx, f.program)
	if err != nil {
		return err
	}
	line.Say("pushing %s", to.Name())
	ref, err := push.Image(ctx, image, to)
	line.Clear()
	if err != nil {
		return err
	}
	_, digest, _ := strings.Cut(ref, "@")
	return env.print(f.json, map[string]string{"schema": componentsSchema, "image": ref, "digest": digest}, ref+"\n")
}
