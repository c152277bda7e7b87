package cli

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// How long a recording waits for a proxy's configuration, and until nothing
// more comes.
const (
	recordLimit    = 2 * time.Minute
	recordPatience = 30 * time.Second // as long as no proxy connects
	recordQuiet    = time.Second
)

// newXDSRecordCommand is `meshtrial xds record`.
func newXDSRecordCommand(env *Env) *cobra.Command {
	f := &xdsFlags{}
	var out string
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record what an istiod sends one proxy",
		Long: "Connect one simulated sidecar (or a gateway with --gateways 1, a ztunnel with --ztunnels 1),\n" +
			"wait until it has its configuration, and write that to a file as istiod sent it. `meshtrial\n" +
			"scope` says which objects brought it (for a ztunnel, only how much of each type).",
		Example: "  meshtrial xds record --address 10.96.0.20:15010 --namespace shop --out shop.xds.gz\n" +
			"  meshtrial xds record --address 10.96.0.20:15010 --out - | meshtrial scope --dump -",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.proxies+f.gateways+f.ztunnels == 0 && f.identities == "" {
				f.proxies = 1
			}
			if len(f.addresses) == 0 {
				return errs.WithHint(errs.Usage("no --address"), "meshtrial xds record --address HOST:15010 --out shop%s", confile.Extension)
			}
			spec, err := f.spec(cmd.Context())
			if err != nil {
				return err
			}
			if len(spec.Proxies) != 1 {
				return errs.Usage("%d proxies: a recording is of one", len(spec.Proxies))
			}
			if out == "" {
				return errs.WithHint(errs.Usage("no --out"), "name a file: --out shop%s, or - for standard output", confile.Extension)
			}
			return recordXDS(cmd.Context(), env, spec, out)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write, packed with gzip; - for standard output")
	return cmd
}

func recordXDS(ctx context.Context, env *Env, spec xds.Spec, out string) (err error) {
	file := env.Stdout
	if out != "-" {
		// Made first: a recording that cannot be kept need not begin.
		made, err := os.Create(out)
		if err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		defer func() {
			info, statErr := made.Stat()
			if err = errors.Join(err, made.Close()); err != nil && statErr == nil && info.Mode().IsRegular() {
				_ = os.Remove(out) // half a recording is none
			}
		}()
		file = made
	}
	limited, cancel := context.WithTimeoutCause(ctx, recordLimit, fmt.Errorf("it did not have its configuration within %v", recordLimit))
	defer cancel()
	fleet, err := xds.Start(limited, spec)
	if err != nil {
		return err
	}
	defer fleet.Stop()
	began := time.Now()
	progress := newProgress(env.Stderr)
	defer progress.Clear()
	for {
		s := fleet.Status()
		if s.Quiet(int64(recordQuiet)) {
			break
		}
		progress.Say("%d connected, %d synced  %s", s.Connected, s.Synced, s.LastError)
		if s.Connected == 0 && time.Since(began) > recordPatience {
			return errs.WithHint(fmt.Errorf("nothing at %s served a proxy within %v: %s", strings.Join(spec.Addresses, ", "), recordPatience, cmp.Or(s.LastError, "no answer")),
				"istiod listens at port 15010 in plain text, at 15012 with TLS (--security)")
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted before %s had sent a configuration: %s", strings.Join(spec.Addresses, ", "), cmp.Or(fleet.Status().LastError, "no error was seen"))
			}
			return fmt.Errorf("%w: %s", context.Cause(limited), cmp.Or(fleet.Status().LastError, "no error was seen"))
		}
	}
	progress.Clear()
	z := gzip.NewWriter(file)
	if err := errors.Join(fleet.WriteConfiguration(z, 0, confile.Header{}), z.Close()); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	if out == "-" {
		return nil
	}
	held := fleet.Holdings()[0]
	fmt.Fprintf(env.Stderr, "%s: %s %s, %.1f kB\n", out, held.Type, held.Name, float64(held.Bytes)/1000)
	return nil
}
