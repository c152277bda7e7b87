package cli

import (
	"fmt"
	"slices"
	"strings"
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
			return env.print(f.json, status, statusText(status))
		},
	}
	f.add(cmd)
	return cmd
}

func statusText(s app.ClusterStatus) string {
	b := &strings.Builder{}
	if s.Holder == nil {
		fmt.Fprintf(b, "no run is active\n")
	} else {
		fmt.Fprintf(b, "active, or killed: %s\n", s.Holder)
	}
	list := func(title string, changes []app.ClusterChange) {
		for i, c := range changes {
			by := "run " + c.Run
			if c.Kept != "" {
				by = c.Kept + ", " + by
			}
			if i == 0 {
				fmt.Fprintf(b, "\n%s:\n", title)
			}
			fmt.Fprintf(b, "  %s %s by %s on %s (%s)\n", c.Object, c.Done, by, c.Since.Local().Format(time.DateTime), c.Why)
			for _, field := range c.Fields {
				fmt.Fprintf(b, "    %s\n", field)
			}
			if c.Left != "" {
				fmt.Fprintf(b, "    left alone, since someone else changed it: %s\n", c.Left)
			}
		}
	}
	left := slices.DeleteFunc(slices.Clone(s.Changes), func(c app.ClusterChange) bool { return c.Kept != "" })
	list("not reverted", left)
	list("kept on purpose; to revert: meshtrial cluster restore --run RUN", slices.DeleteFunc(slices.Clone(s.Changes), func(c app.ClusterChange) bool { return c.Kept == "" }))
	for i, n := range s.Namespaces {
		if i == 0 {
			fmt.Fprintf(b, "\nnamespaces of runs that are not active on this machine:\n")
		}
		fmt.Fprintf(b, "  %s, since %s\n", n.Name, n.Since.Local().Format(time.DateTime))
	}
	if s.NamespacesHidden {
		fmt.Fprintf(b, "\nnamespaces of runs are not shown: this user may not list namespaces\n")
	}
	switch {
	case len(left)+len(s.Namespaces) == 0:
	case s.Holder == nil:
		fmt.Fprintf(b, "\nto revert and remove this: meshtrial cluster restore\n")
	default:
		fmt.Fprintf(b, "\nonce that run is over: meshtrial cluster restore\n")
	}
	return b.String()
}
