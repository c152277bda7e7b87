package cli

import (
	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/app"
)

// istiodFlags select the istiod of a lab.
type istiodFlags struct{ app.Istiod }

func (f *istiodFlags) register(flags *pflag.FlagSet) {
	addWhereFlags(flags, &f.Where, "where istiod runs")
	addRevisionFlag(flags, &f.Revision)
	flags.StringVar(&f.Namespace, "istio-namespace", "istio-system", "where istiod is installed")
}

func addRevisionFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "revision", "", "`name` of the Istio revision, if several are installed")
}
