package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/run/site"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// whyDrained is the reason in the journal for a change to nodes.
const whyDrained = "a step drains nodes"

func (r *ready) Drain(a *fault.Drain) error { return r.holds(r.drain(r.ctx, a)) }

// drain cordons nodes and evicts the pods of services there.
func (h *executor) drain(ctx context.Context, a *fault.Drain) (*execution, error) {
	chosen, err := h.choose(a.Service, a.Pick)
	if err != nil {
		return nil, err
	}
	d := &draining{executor: h, before: map[string]map[string]bool{}, leaving: map[string]map[string]bool{}, changed: map[string][]fields.Field{}}
	for _, r := range chosen {
		if !slices.Contains(d.nodes, r.Node) {
			d.nodes = append(d.nodes, r.Node)
		}
	}
	if err := roomBeside(ctx, h.Kube, d.nodes); err != nil {
		return nil, err
	}
	out := &execution{target: "node " + strings.Join(d.nodes, ", "), begin: d.begin, prove: d.prove, end: d.end}
	for _, node := range d.nodes {
		out.outlasting = append(out.outlasting, d.object(node))
	}
	return out, nil
}

// draining is the work of one step that drains nodes.
type draining struct {
	*executor
	nodes           []string
	before, leaving map[string]map[string]bool // UIDs of pods, by service
	changed         map[string][]fields.Field  // by node
}

func (d *draining) object(node string) journal.Object {
	return journal.Object{APIVersion: "v1", Kind: "Node", Name: node}
}

func (d *draining) begin(ctx context.Context) error {
	for _, node := range d.nodes {
		step, err := d.changes.Change(ctx, d.object(node), whyDrained, func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return live, unstructured.SetNestedField(live.Object, true, "spec", "unschedulable")
		})
		if len(step) > 0 {
			d.changed[node] = step
		}
		if err != nil {
			return err
		}
	}
	for _, one := range d.scene.scenario.Graph.Services {
		d.before[one.Name], d.leaving[one.Name] = d.uids(one.Name), map[string]bool{}
		for _, r := range d.census.living(one.Name) {
			if !slices.Contains(d.nodes, r.Node) {
				continue
			}
			d.leaving[one.Name][r.uid] = true
			if err := d.Kube.CoreV1().Pods(d.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("evict pod %s from node %s: %w", r.Name, r.Node, err)
			}
		}
	}
	return nil
}

// prove waits until none of the pods is an endpoint and others have replaced them.
func (d *draining) prove(ctx context.Context) (string, error) {
	left := 0
	for _, one := range d.scene.scenario.Graph.Services {
		leaving := d.leaving[one.Name]
		if len(leaving) == 0 {
			continue
		}
		if _, err := d.proveNew(ctx, one.Name, d.before[one.Name], len(leaving), leaving); err != nil {
			return "", err
		}
		left += len(leaving)
	}
	return fmt.Sprintf("%d pods were evicted, and as many others are endpoints elsewhere", left), nil
}

func (d *draining) end(ctx context.Context) error {
	var failed []error
	for _, node := range d.nodes {
		if step := d.changed[node]; len(step) > 0 {
			failed = append(failed, d.changes.Revert(ctx, d.object(node), whyDrained, step))
		}
	}
	return errors.Join(failed...)
}

// roomBeside reports, as an error, whether pods cannot go to nodes other than these.
func roomBeside(ctx context.Context, kube kubernetes.Interface, nodes []string) error {
	open, err := site.OpenNodes(ctx, kube)
	if err != nil || slices.ContainsFunc(open, func(n corev1.Node) bool { return !slices.Contains(nodes, n.Name) }) {
		return err
	}
	return errs.WithHint(errs.Usage("a step drains node %s, and no other node is schedulable", strings.Join(nodes, ", ")), needsNodes)
}

const needsNodes = "meshtrial lab up --nodes 2; or leave the step out with skip"
