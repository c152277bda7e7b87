package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// newXDSRecordCommand returns the command `meshtrial xds record`.
func newXDSRecordCommand(env *Env) *cobra.Command {
	f := &xdsFlags{}
	var out string
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record what istiod sends one proxy",
		Long: "Connect one simulated sidecar (or a gateway with --gateways 1, a ztunnel with --ztunnels 1),\n" +
			"wait until it has its configuration, and write it to a file as istiod sent it. `meshtrial\n" +
			"assess config` shows which objects caused it (for a ztunnel, only the amount of each type).",
		Example: "  meshtrial xds record --address 10.96.0.20:15010 --namespace shop --out shop.xds.gz\n" +
			"  meshtrial xds record --address 10.96.0.20:15010 --out - | meshtrial assess config --from -",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Sidecars+f.Gateways+f.Ztunnels == 0 && f.Identities == "" {
				f.Sidecars = 1
			}
			spec, err := f.spec(cmd.Context(), "meshtrial xds record --address HOST:15010 --out shop"+confile.Extension)
			if err != nil {
				return err
			}
			if len(spec.Proxies) != 1 {
				return errs.Usage("%d proxies: a recording is of a single proxy", len(spec.Proxies))
			}
			if out == "" {
				return errs.WithHint(errs.Usage("no --out"), "name a file: --out shop%s, or - for standard output", confile.Extension)
			}
			return recordXDS(cmd.Context(), env, spec, out)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write, gzip-compressed; - for standard output")
	return cmd
}

func recordXDS(ctx context.Context, env *Env, spec xds.Spec, out string) (err error) {
	file := env.Stdout
	if out != "-" {
		// Create the file first: do not start a recording that cannot be saved.
		made, err := os.Create(out)
		if err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		defer func() {
			info, statErr := made.Stat()
			if err = errors.Join(err, made.Close()); err != nil && statErr == nil && info.Mode().IsRegular() {
				if path, linkErr := filepath.EvalSymlinks(out); linkErr == nil {
					_ = os.Remove(path) // an incomplete recording is useless
				}
			}
		}()
		file = made
	}
	held, err := app.RecordProxy(ctx, spec, file, newProgress(env.Stderr))
	if err == nil && out != "-" {
		fmt.Fprintf(env.Stderr, "%s: %s %s, %.1f kB\n", out, held.Type, held.Name, float64(held.Bytes)/1000)
	}
	return err
}
