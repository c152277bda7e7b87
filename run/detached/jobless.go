package detached

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// A run's ClusterRole is created first and its Job last. If the starting process is killed in
// between, rights remain, bound to a service account. They are listed as a run without a Job,
// so that users can remove them.

// jobless returns the runs in a namespace, "" for all, that have rights but no Job. It returns
// none to users without permission.
func (c *Cluster) jobless(ctx context.Context, namespace string, known []Run) (out []Run, err error) {
	anchors, err := c.anchors(ctx)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	for i := range anchors {
		r, ours := joblessRun(&anchors[i], time.Now())
		if !ours || namespace != "" && r.Namespace != namespace {
			continue
		}
		if !slices.ContainsFunc(known, func(k Run) bool { return k.Name == r.Name && k.Namespace == r.Namespace }) {
			out = append(out, r)
		}
	}
	return out, err
}

// anchors returns the ClusterRoles that own runs' objects. Each exists from the start of its
// run to its end.
func (c *Cluster) anchors(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := c.objects.Resource(resources["ClusterRole"]).List(ctx, metav1.ListOptions{LabelSelector: Label})
	if err != nil {
		return nil, fmt.Errorf("list the rights of detached runs: %w", err)
	}
	return list.Items, nil
}

// joblessRun derives a run from its ClusterRole, whose name includes the namespace of the
// intended Job: see rights.Subject.
func joblessRun(anchor *unstructured.Unstructured, now time.Time) (r Run, ours bool) {
	name := anchor.GetLabels()[Label]
	namespace, named := strings.CutSuffix(strings.TrimPrefix(anchor.GetName(), "meshtrial:"), ":"+objectName(name))
	if !named || !reRun.MatchString(name) || !reStudy.MatchString(namespace) { // namespaces have the same syntax as study names
		return Run{}, false
	}
	since := anchor.GetCreationTimestamp().Time
	r = Run{Name: name, Namespace: namespace, Since: since, State: NoJob, anchor: anchor.GetName(), atWork: now.Before(since.Add(startLimit + overdue))}
	if study := anchor.GetAnnotations()[studyAnnotation]; reStudy.MatchString(study) {
		r.Study = study
	}
	return r, true
}

// begun rejects operations that are impossible for a run without a Job.
func (c *Cluster) begun(r Run) error {
	if r.State != NoJob {
		return nil
	}
	return errs.WithHint(errs.Usage("run %s has rights in the cluster but no Job: it is being started now, or the process that started it was killed", r.Name),
		"meshtrial runs delete %s%s removes the rights", r.Name, c.words)
}
