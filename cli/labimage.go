package cli

import (
	"debug/buildinfo"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
)

func newLabImageCommand(env *Env) *cobra.Command {
	var out, program string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "image --out FILE",
		Short: "Write an image with everything a lab needs",
		Long: "Write an archive for `docker load`, `podman load` or `ctr images import`: this program with\n" +
			"Kubernetes, Istio, Envoy and containerd, as built by `lab components build`. A container of it\n" +
			"needs neither compilers nor the network, but requires --privileged, since a lab creates namespaces\n" +
			"and mounts:\n\n" +
			"  docker run --rm --privileged -v \"$PWD\":/results meshtrial/lab run quick\n\n" +
			"Results go to /results, the working directory. The volume /meshtrial has what a lab writes: with\n" +
			"-v meshtrial:/meshtrial, the lab of the next container starts sooner. The image has the\n" +
			"architecture of the meshtrial binary in it: --program takes a binary of the same version for\n" +
			"another architecture, for which everything is then built here.",
		Example: "  meshtrial lab image --out meshtrial.tar && docker load -i meshtrial.tar\n" +
			"  meshtrial lab image --program arm64/meshtrial --out meshtrial-arm64.tar",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errs.WithHint(errs.Usage("no file to write the image to"), "--out meshtrial.tar")
			}
			program, err := imageProgram(program)
			if err != nil {
				return err
			}
			b, line, err := newBuilder(env)
			if err != nil {
				return err
			}
			made, err := b.Standalone(cmd.Context(), program, out)
			line.Clear()
			if err != nil {
				return err
			}
			return env.print(asJSON, struct {
				Schema string `json:"schema"`
				components.Standalone
			}{componentsSchema, made}, fmt.Sprintf("%s  %s  %s  %.0f MB, unpacked %.0f MB  %s\n",
				made.Ref, made.Platform, shorten(made.Digest), float64(made.Size)/1e6, float64(made.Unpacked)/1e6, made.Path))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write")
	cmd.Flags().StringVar(&program, "program", "", "`FILE` with the meshtrial binary of the same version to include (default: this one); determines the image's architecture")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the full digest")
	return cmd
}

// imageProgram is the program at path, or this one. One of another version would look for other
// components than this one makes.
func imageProgram(path string) (string, error) {
	if path == "" {
		return os.Executable()
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", errs.Usage("--program %s is not a meshtrial binary: %v", path, err)
	}
	if info.Path != mainPackage {
		return "", errs.Usage("--program %s is not a meshtrial binary: its main package is %q", path, info.Path)
	}
	if got, want := app.VersionOf(info), app.Version(); got != want {
		return "", errs.WithHint(errs.Usage("--program %s is version %q, and this is %s", path, got, want),
			"GOARCH=arm64 make build BIN=bin/arm64/meshtrial builds it from the same source")
	}
	return path, nil
}

const mainPackage = "github.com/meshtrial/meshtrial/cmd/meshtrial"
