package cli

import (
	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/lab"
)

// istiodFlags select the istiod of a lab.
type istiodFlags struct{ app.Istiod }

func (f *istiodFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Lab, "lab", lab.KindLocal, "where istiod runs: local (the lab on this machine) or cluster (from a kubeconfig)")
	addKubeconfigFlags(flags, &f.Kubeconfig, &f.Context, ofLabCluster)
	addRevisionFlag(flags, &f.Revision)
	flags.StringVar(&f.Namespace, "istio-namespace", "istio-system", "where istiod is installed")
}

func addRevisionFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "revision", "", "`name` of the Istio revision, if several are installed")
}
