package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/local"
)

func newLabLogsCommand(env *Env) *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "logs [COMPONENT]",
		Short: "Print a component's log, or list the components that have one",
		Example: "  meshtrial lab logs\n" +
			"  meshtrial lab logs kubelet --follow",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := local.LogFiles("")
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if asJSON {
					return writeJSON(env.Stdout, map[string]any{"schema": 1, "logs": files})
				}
				for _, name := range slices.Sorted(maps.Keys(files)) {
					fmt.Fprintf(env.Stdout, "%s\t%s\n", name, files[name])
				}
				return nil
			}
			path, ok := files[args[0]]
			if !ok {
				return errs.WithHint(errs.Usage("the lab has no component %q", args[0]), "it has: %s", strings.Join(slices.Sorted(maps.Keys(files)), ", "))
			}
			return printLog(cmd.Context(), env.Stdout, path, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print what is added, until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "list the log files as JSON")
	return cmd
}

// printLog copies a log, and on until ctx ends if follow is set.
func printLog(ctx context.Context, w io.Writer, path string, follow bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := io.Copy(w, f); err != nil || !follow {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // following ends with the interrupt
		case <-time.After(200 * time.Millisecond):
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil // the lab is gone
		}
	}
}
