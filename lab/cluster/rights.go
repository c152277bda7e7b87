package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/rights"
)

// Answer is the cluster's answer about a right.
type Answer struct {
	rights.Right
	// Missing lists the verbs that this user lacks.
	Missing []string `json:"missing"`
}

// Needed reports whether a run cannot start without the missing verbs.
func (a *Answer) Needed() bool { return len(a.Missing) > 0 && !a.Optional() }

// String describes the missing verbs.
func (a *Answer) String() string { return a.Words(a.Missing) }

// Words describes verbs of the right, with its place and purpose.
func (a *Answer) Words(verbs []string) string {
	where := ""
	switch {
	case a.Where == rights.InRun:
		where = " in the run's namespace"
	case a.Namespace != "":
		where = " in namespace " + a.Namespace
	case a.Where == rights.InNamed:
		where = " in all namespaces"
	}
	return fmt.Sprintf("%s %s%s (%s)", strings.Join(verbs, ", "), a.Name(), where, a.Why)
}

// Checked is a feature with the cluster's answers.
type Checked struct {
	rights.Feature
	Answers []Answer `json:"rights"`
}

// Ask asks the API server, by SelfSubjectAccessReview, which of the rights this user
// lacks. Namespaces and resources must be filled in: see [rights.Place] and
// [Resolve].
func Ask(ctx context.Context, client kubernetes.Interface, features []rights.Feature) ([]Checked, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var asked []*authorization.SelfSubjectAccessReview
	index := map[string]int{} // indexes into asked, by question
	for i := range features {
		for k := range features[i].Rights {
			r := &features[i].Rights[k]
			for _, verb := range r.Verbs {
				if _, twice := index[question(r, verb)]; !twice {
					index[question(r, verb)] = len(asked)
					asked = append(asked, review(r, verb))
				}
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range asked {
		group.Go(func() (err error) {
			if asked[i], err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, asked[i], metav1.CreateOptions{}); err != nil {
				return refused(fmt.Errorf("query this user's rights: %w", err))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := make([]Checked, len(features))
	for i := range features {
		out[i].Feature = features[i]
		for k := range features[i].Rights {
			a := Answer{Right: features[i].Rights[k], Missing: []string{}}
			for _, verb := range a.Verbs {
				if !asked[index[question(&a.Right, verb)]].Status.Allowed {
					a.Missing = append(a.Missing, verb)
				}
			}
			out[i].Answers = append(out[i].Answers, a)
		}
	}
	return out, nil
}

// question returns a key for one verb of a right.
func question(r *rights.Right, verb string) string {
	return strings.Join([]string{verb, r.Group, r.Resource, r.Subresource, r.URL, r.Namespace}, " ")
}

func review(r *rights.Right, verb string) *authorization.SelfSubjectAccessReview {
	out := &authorization.SelfSubjectAccessReview{}
	if r.Where == rights.OfURL {
		out.Spec.NonResourceAttributes = &authorization.NonResourceAttributes{Path: r.URL, Verb: verb}
	} else {
		out.Spec.ResourceAttributes = &authorization.ResourceAttributes{
			Verb: verb, Group: r.Group, Version: r.Version, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace}
	}
	return out
}

// Resolve asks the API server for the resources of objects that a study names by
// kind, and clears the namespace of cluster-scoped ones. It drops kinds that the
// cluster does not have and names them in the notes.
func Resolve(ctx context.Context, client kubernetes.Interface, features []rights.Feature) (known []rights.Feature, notes []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, f := range features {
		var found []rights.Right
		for i := range f.Rights {
			r := f.Rights[i]
			if r.Kind != "" {
				if err := resolve(ctx, client, &r); err != nil {
					return nil, nil, err
				}
				if r.Resource == "" {
					notes = append(notes, fmt.Sprintf("the cluster does not serve %s of %s: whether this user may change it is unknown (%s)", r.Kind, groupVersion(&r), r.Why))
					continue
				}
			}
			found = append(found, r)
		}
		if f.Rights = found; len(found) > 0 {
			known = append(known, f)
		}
	}
	return known, notes, nil
}

// Grantable returns the rights that this user can grant to a run's pod. It omits
// optional rights that the user lacks, and rights in namespaces with only optional
// rights where the user cannot create roles. The notes name the latter.
func Grantable(ctx context.Context, client kubernetes.Interface, features []rights.Feature) (out []rights.Feature, notes []string, err error) {
	features, _, err = Resolve(ctx, client, features)
	if err != nil {
		return nil, nil, err
	}
	checked, err := Ask(ctx, client, features)
	if err != nil {
		return nil, nil, err
	}
	closed, err := closedTo(ctx, client, features)
	if err != nil {
		return nil, nil, err
	}
	for i := range checked {
		f := checked[i].Feature
		f.Rights = nil
		for k := range checked[i].Answers {
			a := &checked[i].Answers[k]
			r := a.Right
			if r.Optional() {
				r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(verb string) bool { return slices.Contains(a.Missing, verb) })
			}
			switch {
			case len(r.Verbs) == 0:
			case closed[granted(&r)]:
				notes = append(notes, fmt.Sprintf("the run's pod may not %s, because this user cannot create roles there: %s", a.Words(r.Verbs), r.Without))
			default:
				f.Rights = append(f.Rights, r)
			}
		}
		if len(f.Rights) > 0 {
			out = append(out, f)
		}
	}
	return out, notes, nil
}

// granted returns the namespace of the role that grants a right; "" means a
// ClusterRole.
func granted(r *rights.Right) string {
	if r.Where == rights.InRun {
		return ""
	}
	return r.Namespace
}

// closedTo returns the namespaces that have only optional rights and in which this
// user cannot create roles.
func closedTo(ctx context.Context, client kubernetes.Interface, features []rights.Feature) (map[string]bool, error) {
	needed, optional := map[string]bool{}, map[string]bool{} // by namespace
	for i := range features {
		for k := range features[i].Rights {
			r := &features[i].Rights[k]
			if r.Optional() {
				optional[granted(r)] = true
			} else {
				needed[granted(r)] = true
			}
		}
	}
	var roles rights.Feature
	for namespace := range optional {
		if namespace == "" || needed[namespace] {
			continue
		}
		for _, resource := range []string{"roles", "rolebindings"} {
			roles.Rights = append(roles.Rights, rights.Right{Verbs: []string{"create"}, Group: "rbac.authorization.k8s.io", Resource: resource, Where: rights.InNamed, Namespace: namespace})
		}
	}
	checked, err := Ask(ctx, client, []rights.Feature{roles})
	if err != nil {
		return nil, err
	}
	closed := map[string]bool{}
	for i := range checked[0].Answers {
		if a := &checked[0].Answers[i]; len(a.Missing) > 0 {
			closed[a.Namespace] = true
		}
	}
	return closed, nil
}

func groupVersion(r *rights.Right) string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

// resolve finds the resource of a right's kind, if the cluster has one.
func resolve(ctx context.Context, client kubernetes.Interface, r *rights.Right) error {
	version := groupVersion(r)
	served, err := client.Discovery().ServerResourcesForGroupVersion(ctx, version)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return refused(fmt.Errorf("list the cluster's objects of %s: %w", version, err))
	}
	for i := range served.APIResources {
		s := &served.APIResources[i]
		if s.Kind == r.Kind && !strings.Contains(s.Name, "/") {
			if r.Resource = s.Name; !s.Namespaced {
				r.Namespace, r.Where = "", rights.Everywhere
			}
		}
	}
	return nil
}
