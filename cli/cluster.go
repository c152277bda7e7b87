package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
)

func newClusterCommand(env *Env) *cobra.Command {
	return parentCommand("cluster", "Check permissions in a cluster, show active runs, and revert changes of dead runs", "",
		newClusterStatusCommand(env), newClusterRestoreCommand(env), clusterCheckCommand(env))
}

// clusterFlags are the flags of all commands below cluster.
type clusterFlags struct {
	kubeconfig, context string
	json                bool
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	addKubeconfigFlags(flags, &f.kubeconfig, &f.context, "")
	flags.BoolVar(&f.json, "json", false, "print JSON")
}

// ofLabCluster begins the text of a flag that counts with --lab cluster alone.
const ofLabCluster = "with --lab cluster: "

// addKubeconfigFlags adds the flags that name a cluster of the user's; when begins
// their texts.
func addKubeconfigFlags(flags *pflag.FlagSet, kubeconfig, inContext *string, when string) {
	flags.StringVar(kubeconfig, "kubeconfig", "", when+"kubeconfig `FILE` (default $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(inContext, "context", "", when+"kubeconfig context to use")
}

// addWhereFlags adds the flags that name a lab. what says what it is for, as "where to run".
func addWhereFlags(flags *pflag.FlagSet, to *app.Where, what string) {
	flags.StringVar(&to.Lab, "lab", lab.KindLocal, what+": local (the lab on this machine) or cluster (from a kubeconfig)")
	addKubeconfigFlags(flags, &to.Kubeconfig, &to.Context, ofLabCluster)
}

func (f *clusterFlags) reach(ctx context.Context) (*rest.Config, error) {
	return cluster.Reach(ctx, cluster.Options{Kubeconfig: f.kubeconfig, Context: f.context})
}
