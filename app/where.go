package app

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
)

// Where names an existing lab: the one on this machine, or a user's cluster.
type Where struct {
	Lab        string `json:"lab"` // lab.KindLocal or lab.KindCluster
	Kubeconfig string `json:"-"`   // of a cluster
	Context    string `json:"-"`
}

// Check returns an error for flags that do not go together.
func (w Where) Check() error {
	switch {
	case w.Lab == lab.KindLocal && w.Kubeconfig != "":
		return errs.WithHint(errs.Usage("--kubeconfig requires --lab cluster"), "add --lab cluster")
	case w.Lab == lab.KindLocal && w.Context != "":
		return errs.WithHint(errs.Usage("--context requires --lab cluster"), "add --lab cluster")
	case w.Lab == lab.KindLocal, w.Lab == lab.KindCluster:
		return nil
	}
	return errs.WithHint(errs.Usage("unknown lab %q", w.Lab), "--lab takes local or cluster")
}

// Config returns how to reach the lab, if its user has the rights in needs. Code that can do
// without other rights reports what their absence costs.
func (w Where) Config(ctx context.Context, needs []rights.Feature) (*rest.Config, error) {
	if w.Lab == lab.KindLocal {
		l, err := local.Open("")
		if err != nil {
			return nil, err
		}
		return l.RESTConfig(), nil
	}
	return cluster.Reach(ctx, cluster.Options{Kubeconfig: w.Kubeconfig, Context: w.Context, Needs: needs})
}

// Flags returns the flags with which other commands find the lab, each preceded by a space. For
// the lab on this machine it returns "".
func (w Where) Flags() string {
	if w.Lab == lab.KindLocal {
		return ""
	}
	return " --lab cluster" + ClusterFlags(w.Kubeconfig, w.Context)
}
