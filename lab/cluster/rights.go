package cluster

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/rights"
)

// Answer is what the cluster says of a right.
type Answer struct {
	rights.Right
	// Missing are the verbs that this user lacks.
	Missing []string `json:"missing"`
}

// Needed says that a run does not start without what is missing.
func (a Answer) Needed() bool { return len(a.Missing) > 0 && !a.Optional() }

// String is what is missing in words.
func (a Answer) String() string { return a.Words(a.Missing) }

// Words name verbs of the right, with where and what for.
func (a Answer) Words(verbs []string) string {
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

// Ask asks the API server which of the rights this user lacks, by
// SelfSubjectAccessReview. The rights have their namespaces and resources: see
// [rights.Place] and [Resolve].
func Ask(ctx context.Context, client kubernetes.Interface, features []rights.Feature) ([]Checked, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var asked []authorization.SelfSubjectAccessReviewSpec
	index := map[string]int{} // of asked, by the question
	for _, f := range features {
		for _, r := range f.Rights {
			for _, verb := range r.Verbs {
				if key := questionKey(r, verb); index[key] == 0 {
					asked = append(asked, question(r, verb))
					index[key] = len(asked) // from 1
				}
			}
		}
	}
	allowed := make([]bool, len(asked))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, spec := range asked {
		group.Go(func() error {
			answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorization.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("ask the cluster what this user may do: %w", err)
			}
			allowed[i] = answer.Status.Allowed
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []Checked
	for _, f := range features {
		c := Checked{Feature: f}
		for _, r := range f.Rights {
			a := Answer{Right: r, Missing: []string{}}
			for _, verb := range r.Verbs {
				if !allowed[index[questionKey(r, verb)]-1] {
					a.Missing = append(a.Missing, verb)
				}
			}
			c.Answers = append(c.Answers, a)
		}
		out = append(out, c)
	}
	return out, nil
}

func questionKey(r rights.Right, verb string) string {
	return strings.Join([]string{verb, r.Group, r.Resource, r.Subresource, r.URL, r.Namespace}, " ")
}

func question(r rights.Right, verb string) authorization.SelfSubjectAccessReviewSpec {
	if r.Where == rights.OfURL {
		return authorization.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorization.NonResourceAttributes{Path: r.URL, Verb: verb}}
	}
	return authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{
		Verb: verb, Group: r.Group, Version: r.Version, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace}}
}

// Resolve asks the API server for the resources of objects that a study names
// by their kind, and takes the namespace from those that have none. A kind that
// the cluster does not have keeps no resource: the notes name it.
func Resolve(ctx context.Context, client kubernetes.Interface, features []rights.Feature) (known []rights.Feature, notes []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for _, f := range features {
		var found []rights.Right
		for _, r := range f.Rights {
			if r.Kind == "" {
				found = append(found, r)
				continue
			}
			version := schema.GroupVersion{Group: r.Group, Version: r.Version}
			served, err := client.Discovery().ServerResourcesForGroupVersion(ctx, version.String())
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, nil, fmt.Errorf("ask the cluster for objects of %s: %w", version, err)
			}
			if served != nil {
				for _, s := range served.APIResources {
					if s.Kind != r.Kind || strings.Contains(s.Name, "/") {
						continue
					}
					r.Resource = s.Name
					if !s.Namespaced {
						r.Namespace, r.Where = "", rights.Everywhere
					}
				}
			}
			if r.Resource == "" {
				notes = append(notes, fmt.Sprintf("the cluster has no %s of %s: whether it may be changed is not known (%s)", r.Kind, version, r.Why))
				continue
			}
			found = append(found, r)
		}
		if f.Rights = found; len(found) > 0 {
			known = append(known, f)
		}
	}
	return known, notes, nil
}
