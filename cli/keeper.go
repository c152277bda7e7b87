package cli

import (
	"fmt"
	"log/slog"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/site/keeper"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func newKeeperCommand(env *Env) *cobra.Command {
	options := keeper.Options{}
	var uid string
	cmd := &cobra.Command{
		Use:   "keeper",
		Short: "Delete a run's namespace (and this pod) after its runner has died",
		Long: fmt.Sprintf("keeper runs in a run's namespace. It reads the cluster's Lease every %v with its pod's service\n"+
			"account, and deletes the namespace once the run no longer holds the Lease, or has not\n"+
			"renewed it for %v.", keeper.Every, journal.Lapse),
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			for flag, value := range map[string]string{"run": options.Run, "namespace": options.Namespace, "uid": uid} {
				if value == "" {
					return errs.Usage("--%s is missing", flag)
				}
			}
			config, err := rest.InClusterConfig()
			if err != nil {
				return errs.WithHint(errs.WithCode(fmt.Errorf("keeper: %w", err), errs.CodeUsage), "it must run in a pod with a service account")
			}
			kubernetes.Prepare(config)
			if options.Kube, err = kubernetes.NewForConfig(config); err != nil {
				return err
			}
			options.UID, options.Log = types.UID(uid), slog.New(slog.NewTextHandler(env.Stderr, nil))
			return keeper.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Run, "run", "", "`ID` of the run that holds the Lease")
	flags.StringVar(&options.Namespace, "namespace", "", "`name` of the run's namespace")
	flags.StringVar(&uid, "uid", "", "`UID` of that namespace")
	return cmd
}
