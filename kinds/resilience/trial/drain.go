package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
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

func (r *performer) Drain(a *fault.Drain) error { return r.prepared(r.drain(r.ctx, a)) }

// drain cordons nodes and evicts the pods of services there.
func (h *executor) drain(ctx context.Context, a *fault.Drain) (*execution, error) {
	chosen, err := h.choose(a.Service, a.Pick)
	if err != nil {
		return nil, err
	}
	out := &execution{}
	var nodes []string
	for _, r := range chosen {
		if !slices.Contains(nodes, r.Node) {
			nodes = append(nodes, r.Node)
			out.outlasting = append(out.outlasting, nodeObject(r.Node))
		}
	}
	if err := roomBeside(ctx, h.Kube, nodes); err != nil {
		return nil, err
	}
	out.target = "node " + strings.Join(nodes, ", ")
	before, leaving := map[string]map[string]bool{}, map[string]map[string]bool{} // UIDs of pods, by service
	changed := map[string][]fields.Field{}                                        // by node
	out.begin = func(ctx context.Context) error {
		for _, node := range nodes {
			step, err := h.changes.Change(ctx, nodeObject(node), whyDrained, func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
				return live, unstructured.SetNestedField(live.Object, true, "spec", "unschedulable")
			})
			if len(step) > 0 {
				changed[node] = step
			}
			if err != nil {
				return err
			}
		}
		for _, service := range h.scene.scenario.Names() {
			before[service], leaving[service] = h.uids(service), map[string]bool{}
			for _, r := range h.census.living(service) {
				if !slices.Contains(nodes, r.Node) {
					continue
				}
				leaving[service][r.uid] = true
				if err := h.Kube.CoreV1().Pods(h.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("evict pod %s from node %s: %w", r.Name, r.Node, err)
				}
			}
		}
		return nil
	}
	out.prove = func(ctx context.Context) (string, error) {
		left := 0
		for service, pods := range leaving {
			if len(pods) == 0 {
				continue
			}
			if _, err := h.proveNew(ctx, service, before[service], len(pods), pods); err != nil {
				return "", err
			}
			left += len(pods)
		}
		return words.Plural(left, "pod") + " evicted, and as many others are endpoints elsewhere", nil
	}
	out.end = func(ctx context.Context) error {
		var failed []error
		for node, step := range changed {
			failed = append(failed, h.changes.Revert(ctx, nodeObject(node), whyDrained, step))
		}
		return errors.Join(failed...)
	}
	return out, nil
}

func nodeObject(name string) journal.Object {
	return journal.Object{APIVersion: "v1", Kind: "Node", Name: name}
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
