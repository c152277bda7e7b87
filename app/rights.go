package app

import (
	"context"

	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/study"
)

// StudyRights returns the rights that a study needs with a source of CPU and memory, with their
// places. namespace is for features that work in one namespace; see [Places].
func StudyRights(s *study.Study, observe, namespace string) ([]rights.Feature, error) {
	s, err := Observable(s, observe)
	if err != nil {
		return nil, err
	}
	plan, err := CheckedPlan(s, s.Seed)
	if err != nil {
		return nil, err
	}
	return rights.Place(planRights(plan, observe), Places(rights.Meshes(plan), namespace)), nil
}

// ClusterRights lists the rights that a user has in a cluster.
type ClusterRights struct {
	Schema     int    `json:"schema"`
	Context    string `json:"context"`
	Kubernetes string `json:"kubernetes"`
	// Missing counts the missing rights without which a run does not start, Lacking those without
	// which it continues.
	Missing  int               `json:"missing"`
	Lacking  int               `json:"lacking"`
	Features []cluster.Checked `json:"features"`
	Notes    []string          `json:"notes"`
}

// count counts the rights that are missing.
func (r *ClusterRights) count() {
	for i := range r.Features {
		for k := range r.Features[i].Answers {
			a := &r.Features[i].Answers[k]
			switch {
			case a.Needed():
				r.Missing++
			case len(a.Missing) > 0:
				r.Lacking++
			}
		}
	}
}

// CheckRights asks a cluster which of the rights of features its user has.
func CheckRights(ctx context.Context, o cluster.Options, features []rights.Feature) (ClusterRights, error) {
	found, err := cluster.Find(ctx, o)
	if err != nil {
		return ClusterRights{}, err
	}
	features, notes, err := cluster.Resolve(ctx, found.Kube, features)
	if err != nil {
		return ClusterRights{}, err
	}
	checked, err := cluster.Ask(ctx, found.Kube, features)
	out := ClusterRights{Schema: 1, Context: found.Context, Kubernetes: found.Version, Features: checked,
		Notes: append([]string{}, notes...)}
	out.count()
	return out, err
}

// RightsManifests returns the roles and bindings that grant the rights of features, and notes on
// them.
func RightsManifests(ctx context.Context, o cluster.Options, features []rights.Feature,
	to rights.Subject) ([]byte, []string, error) {
	found, err := cluster.Find(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	features, notes, err := cluster.Resolve(ctx, found.Kube, features)
	if err != nil {
		return nil, nil, err
	}
	text, err := rights.Manifests(features, to)
	return text, notes, err
}
