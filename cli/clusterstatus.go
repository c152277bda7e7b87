package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
)

func newClusterStatusCommand(env *Env) *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the active run in a cluster and what runs have changed there",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := f.reach(cmd.Context())
			if err != nil {
				return err
			}
			status, err := app.ReadClusterStatus(cmd.Context(), config)
			if err != nil {
				return err
			}
			return env.show(f.json, status, func(w io.Writer) error { return writeStatus(w, status) })
		},
	}
	f.add(cmd)
	return cmd
}

func writeStatus(w io.Writer, s app.ClusterStatus) error {
	p := &errWriter{w: w}
	if s.Holder == nil {
		p.printf("no run is active\n")
	} else {
		p.printf("active, or killed: %s\n", s.Holder)
	}
	kept := slices.Clone(s.Changes)
	kept = slices.DeleteFunc(kept, func(c app.ClusterChange) bool { return c.Kept == "" })
	left := slices.DeleteFunc(slices.Clone(s.Changes), func(c app.ClusterChange) bool { return c.Kept != "" })
	if len(left) > 0 {
		p.printf("\nnot reverted:\n")
	}
	for _, c := range left {
		p.printf("  %s %s by run %s on %s (%s)\n", c.Object, c.Done, c.Run, c.Since.Local().Format(time.DateTime), c.Why)
		for _, field := range c.Fields {
			p.printf("    %s\n", field)
		}
		if c.Left != "" {
			p.printf("    left alone, since someone else changed it: %s\n", c.Left)
		}
	}
	if len(kept) > 0 {
		p.printf("\nkept on purpose; to revert: meshtrial cluster restore --run RUN\n")
	}
	for _, c := range kept {
		p.printf("  %s %s by %s on %s, run %s (%s)\n", c.Object, c.Done, c.Kept, c.Since.Local().Format(time.DateTime), c.Run, c.Why)
		if c.Left != "" {
			p.printf("    left alone, since someone else changed it: %s\n", c.Left)
		}
	}
	if len(s.Namespaces) > 0 {
		p.printf("\nnamespaces of runs that are not active on this machine:\n")
	}
	for _, n := range s.Namespaces {
		p.printf("  %s, since %s\n", n.Name, n.Since.Local().Format(time.DateTime))
	}
	if len(left)+len(s.Namespaces) > 0 {
		p.printf("\nonce that run is over: meshtrial cluster restore\n")
	}
	return p.err
}

// errWriter writes until the first error.
type errWriter struct {
	w   io.Writer
	err error
}

func (p *errWriter) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
