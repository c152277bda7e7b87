package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// clusterStatus is what `cluster status --json` prints.
type clusterStatus struct {
	Schema int `json:"schema"`
	// Holder is the run that has the cluster's Lease; none: nobody.
	Holder *journal.Holder `json:"holder,omitempty"`
	// Changes are those that have not been put back.
	Changes []clusterChange `json:"changes"`
	// Namespaces are those that runs made.
	Namespaces []clusterNamespace `json:"namespaces"`
}

type clusterChange struct {
	Object string       `json:"object"`
	Run    string       `json:"run"`
	Since  time.Time    `json:"since"`
	Done   journal.Done `json:"done"`
	Why    string       `json:"why"`
	Fields []string     `json:"fields,omitempty"`
	Left   string       `json:"left,omitempty"`
	// Kept says by whom it was asked for that the change stays.
	Kept string `json:"kept,omitempty"`
}

type clusterNamespace struct {
	Name  string    `json:"name"`
	Run   string    `json:"run"`
	Since time.Time `json:"since"`
	Owner string    `json:"owner,omitempty"`
}

func newClusterStatusCommand(env *Env) *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say who is at work in a cluster, and what runs have changed there",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := f.reach(cmd.Context())
			if err != nil {
				return err
			}
			status, err := readClusterStatus(cmd.Context(), config)
			if err != nil {
				return err
			}
			if f.json {
				return writeJSON(env.Stdout, status)
			}
			return status.write(env.Stdout)
		},
	}
	f.add(cmd)
	return cmd
}

func readClusterStatus(ctx context.Context, config *rest.Config) (clusterStatus, error) {
	out := clusterStatus{Schema: 1, Changes: []clusterChange{}, Namespaces: []clusterNamespace{}}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return out, err
	}
	if out.Holder, err = journal.At(ctx, objects); err != nil {
		return out, err
	}
	entries, err := journal.Entries(ctx, objects)
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		change := clusterChange{Object: e.Object.String(), Run: e.Run, Since: e.At, Done: e.Done, Why: e.Why, Left: e.Left, Kept: e.Kept}
		for _, field := range e.Fields {
			if field.Order == nil && e.Done == journal.Changed {
				change.Fields = append(change.Fields, field.String())
			}
		}
		out.Changes = append(out.Changes, change)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return out, err
	}
	made, err := site.Leftovers(ctx, kube)
	if err != nil {
		return out, err
	}
	for _, l := range made {
		out.Namespaces = append(out.Namespaces, clusterNamespace{Name: l.Namespace, Run: l.Run, Since: l.Since, Owner: l.Owner})
	}
	return out, nil
}

func (s clusterStatus) write(w io.Writer) error {
	p := &errWriter{w: w}
	if s.Holder == nil {
		p.printf("nobody is at work\n")
	} else {
		p.printf("at work, or dead without having said so: %s\n", s.Holder)
	}
	kept := slices.Clone(s.Changes)
	kept = slices.DeleteFunc(kept, func(c clusterChange) bool { return c.Kept == "" })
	left := slices.DeleteFunc(slices.Clone(s.Changes), func(c clusterChange) bool { return c.Kept != "" })
	if len(left) > 0 {
		p.printf("\nnot put back:\n")
	}
	for _, c := range left {
		p.printf("  %s %s by run %s on %s (%s)\n", c.Object, c.Done, c.Run, c.Since.Local().Format(time.DateTime), c.Why)
		for _, field := range c.Fields {
			p.printf("    %s\n", field)
		}
		if c.Left != "" {
			p.printf("    left alone, since somebody else changed it: %s\n", c.Left)
		}
	}
	if len(kept) > 0 {
		p.printf("\nstays, as asked for; to take back: meshtrial cluster restore --run RUN\n")
	}
	for _, c := range kept {
		p.printf("  %s %s by %s on %s, run %s (%s)\n", c.Object, c.Done, c.Kept, c.Since.Local().Format(time.DateTime), c.Run, c.Why)
		if c.Left != "" {
			p.printf("    left alone, since somebody else changed it: %s\n", c.Left)
		}
	}
	if len(s.Namespaces) > 0 {
		p.printf("\nnamespaces of runs that are not under way on this machine:\n")
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
