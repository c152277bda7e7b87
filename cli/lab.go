package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

func newLabCommand(env *Env) *cobra.Command {
	return parentCommand("lab", "Start and stop a real Kubernetes cluster with one or more nodes on this machine", "",
		newLabUpCommand(env), newLabDownCommand(env), newLabStatusCommand(env), newLabEnvCommand(env), newLabLogsCommand(env),
		newLabNodeCommand(), newComponentsCommand(env), newLabImageCommand(env))
}

// firstProcess is a command that a lab starts as the first process of its namespaces.
func firstProcess(use, short string, run func(ctx context.Context, spec string) error) func(*Env) *cobra.Command {
	return func(*Env) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Hidden: true, Args: cobra.ExactArgs(1),
			// The lab handles its signals itself: an orderly end is success.
			RunE: func(cmd *cobra.Command, args []string) error {
				return run(context.WithoutCancel(cmd.Context()), args[0])
			}}
	}
}

func newLabUpCommand(env *Env) *cobra.Command {
	var which string
	var flags *meshFlags
	var asJSON bool
	var o local.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the local lab with Istio, Linkerd or both installed",
		Long: "Start etcd, Kubernetes, containerd and CoreDNS in their own namespaces, and install Istio from its\n" +
			"own charts. Missing components are built first. The lab runs until `meshtrial lab down`.\n\n" +
			"--linkerd also installs Linkerd from its own charts: either from a folder with its programs and\n" +
			"charts, from which images are assembled here, or from a release, which is pulled. --mesh selects the\n" +
			"meshes.\n\n" +
			"--ambient adds Istio's ambient mode alongside sidecars: its node agent is built here, and ztunnel\n" +
			"comes from the --ztunnel folder. With --images official both are pulled, and --ztunnel is not\n" +
			"needed.\n\n" +
			"--gateway-api adds the CRDs of the Gateway API (Gateway, HTTPRoute and others), which istiod then\n" +
			"watches.\n\n" +
			"--nodes starts several nodes, which share this machine; `meshtrial lab node` kills and starts them.",
		Example: "  meshtrial lab up\n" +
			"  meshtrial lab up --nodes 3 --zones a,b,c\n" +
			"  meshtrial lab up --images official\n" +
			"  meshtrial lab up --linkerd edge\n" +
			"  meshtrial lab up --ztunnel ~/ztunnel",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Nodes < 1 {
				return errs.Usage("--nodes must be 1 or more, not %d", o.Nodes)
			}
			names, err := flags.names(which, cmd.Flags().Changed("mesh"))
			if err != nil {
				return err
			}
			settings, err := app.ResolveMeshes(mesh.LabUp, names, flags.given)
			if err != nil {
				return err
			}
			l, err := app.StartLab(cmd.Context(), newProgress(env.Stderr), o, names, settings)
			if err != nil {
				return err
			}
			return env.print(asJSON, map[string]any{"schema": 1, "kubeconfig": l.Kubeconfig(), "nodes": len(l.Nodes()),
				"mesh": cmp.Or(strings.Join(names, ","), study.MeshNone), "up_s": l.UpTime().Seconds()},
				fmt.Sprintf("lab up after %.1f s\n  to use it:  eval \"$(meshtrial lab env)\"\n  to stop it: meshtrial lab down\n", l.UpTime().Seconds()))
		},
	}
	cmd.Flags().StringVar(&which, "mesh", study.MeshIstio, "`meshes` to install: istio, linkerd, both as istio,linkerd, or none")
	flags = addMeshFlags(cmd.Flags(), mesh.LabUp)
	addNodeFlags(cmd, &o.Nodes, &o.Zones, 1, "how many nodes")
	cmd.Flags().BoolVar(&o.Audit, "audit", false, "make the API server log all requests (lab logs audit prints them)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newLabDownCommand(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the local lab and remove everything it left",
		Long:  "Stop the lab if one is running, and remove what it or a crashed lab left outside its namespaces.\nThe cache of components and images is kept.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			was, err := local.Down(cmd.Context(), "")
			if err != nil {
				return err
			}
			took := time.Since(began)
			text := "no lab was running, and nothing was left of earlier ones\n"
			if was {
				text = fmt.Sprintf("lab down after %.1f s\n", took.Seconds())
			}
			return env.print(asJSON, map[string]any{"schema": 1, "was_running": was, "down_s": took.Seconds()}, text)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newLabStatusCommand(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the local lab; exit code 1 if it is not running",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			status, err := local.GetStatus("")
			if err != nil {
				return err
			}
			err = env.show(asJSON, status, func(w io.Writer) error { return printStatus(w, status) })
			if err == nil && status.State != local.StateRunning {
				err = quiet(errs.CodeFailure)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printStatus(w io.Writer, s *local.Status) error {
	switch s.State {
	case local.StateNone:
		_, err := fmt.Fprintln(w, "no lab (meshtrial lab up starts one)")
		return err
	case local.StateDead:
		_, err := fmt.Fprintf(w, "lab %s is dead (meshtrial lab down removes what is left of it)\n", s.ID)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "lab\t%s, %s since %s\n", s.ID, s.State, s.Started.Local().Format(time.DateTime))
	switch {
	case s.Orphaned:
		fmt.Fprintf(t, "for\ta run that was killed (%s): the next run stops it when it ends, as does meshtrial lab down\n", s.ForRun)
	case s.ForRun != nil:
		fmt.Fprintf(t, "for\ta run (%s), which stops it when it ends\n", s.ForRun)
	}
	fmt.Fprintf(t, "api\t%s\n", s.API)
	fmt.Fprintf(t, "kubeconfig\t%s\n", s.Kubeconfig)
	fmt.Fprintf(t, "pods, services\t%s, %s\n", s.Pods, s.Services)
	for _, name := range slices.Sorted(maps.Keys(s.Images.Meshes)) {
		if installed := s.Images.Meshes[name][lab.Status]; installed != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, installed)
		}
	}
	fmt.Fprintf(t, "cgroup\t%s\n\n", s.Cgroup)
	if len(s.Nodes) > 1 {
		printNodes(t, s.Nodes)
	}
	fmt.Fprintf(t, "COMPONENT\tSTATE\tRESTARTS\tLAST EXIT\n")
	for _, c := range s.Components {
		state := "up for " + time.Since(c.Since).Round(time.Second).String()
		if c.PID == 0 {
			state = "down"
		}
		name := c.Name
		if c.Node != "" {
			name = c.Node + "/" + c.Name // the name that lab logs uses
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", name, state, c.Restarts, c.LastExit)
	}
	return t.Flush()
}

// printNodes prints the table of a lab's nodes.
func printNodes(w io.Writer, nodes []local.NodeStatus) {
	fmt.Fprintf(w, "NODE\tSTATE\tREGION\tZONE\tADDRESS\tPODS\n")
	for _, n := range nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, n.State, n.Region, n.Zone, n.Address, n.Pods)
	}
	fmt.Fprintln(w)
}

func newLabEnvCommand(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print environment settings for kubectl: eval \"$(meshtrial lab env)\"",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := local.Open("")
			if err != nil {
				return err
			}
			tools, nodes := local.ToolsDir(""), nodeNames(l)
			text := "export KUBECONFIG=" + shell.Quote(l.Kubeconfig()) + "\n"
			if len(nodes) > 1 {
				text += "export MESHTRIAL_NODES=" + shell.Quote(strings.Join(nodes, " ")) + "\n"
			}
			if tools != "" && !slices.Contains(strings.Split(os.Getenv("PATH"), ":"), tools) {
				text += "export PATH=" + shell.Quote(tools) + ":\"$PATH\"\n"
			}
			return env.print(asJSON, map[string]any{"schema": 1, "KUBECONFIG": l.Kubeconfig(), "tools": tools, "nodes": nodes}, text)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// newLabNodeCommand returns the commands for single nodes of a lab that has several.
func newLabNodeCommand() *cobra.Command {
	one := func(use, short, long string, do func(ctx context.Context, dir, name string) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), "", args[0]) },
		}
	}
	return parentCommand("node", "Kill and start nodes of a multi-node lab",
		"Kill and start nodes of a lab that was started with --nodes; `meshtrial lab status` lists them. To\n"+
			"empty a node first, drain it as in any cluster: kubectl drain NAME --ignore-daemonsets.",
		one("kill NAME", "Kill a node as if it lost power",
			"Kill all processes of a node at once, and its network: packets sent to it vanish. Kubernetes notices\n"+
				"after about 50 s (NotReady), and moves its pods after another five minutes unless their\n"+
				"tolerations say otherwise.", local.KillNode),
		one("start NAME", "Start a node that was killed, and wait until it is ready",
			"Start a node that was killed. Its disk is empty except for images. Pods still assigned\n"+
				"to it start again.", local.StartNode),
	)
}

// nodeNames returns the names of a lab's nodes.
func nodeNames(l *local.Lab) []string {
	var names []string
	for _, n := range l.Nodes() {
		names = append(names, n.Name)
	}
	return names
}

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
				text := ""
				for _, name := range slices.Sorted(maps.Keys(files)) {
					text += name + "\t" + files[name] + "\n"
				}
				return env.print(asJSON, map[string]any{"schema": 1, "logs": files}, text)
			}
			path, ok := files[args[0]]
			if !ok {
				return errs.WithHint(errs.Usage("the lab has no component %q", args[0]), "components: %s", strings.Join(slices.Sorted(maps.Keys(files)), ", "))
			}
			return printLog(cmd.Context(), env.Stdout, path, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new lines until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "list the log files as JSON")
	return cmd
}

// printLog copies a log to w. If follow is set, it continues until ctx ends.
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
			return nil // an interrupt is how following ends
		case <-time.After(200 * time.Millisecond):
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil // the lab is gone
		}
	}
}
