package population

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Own makes a cluster-scoped object the owner of the population: when the owner is
// deleted, the garbage collector deletes the population. The next [World.Ensure]
// adopts wanted objects that already exist, including those of an earlier owner;
// [World.TryNode] removes everything except the nodes.
func (w *World) Own(owner metav1.OwnerReference) { w.owner = &owner }

// Label adds labels to the population's namespaces.
func (w *World) Label(labels map[string]string) { w.labels = labels }

// owners maps each object of a population to its owner.
type owners struct {
	owner metav1.OwnerReference
	// anchor owns the nodes: one of the population's namespaces, which disappears only
	// after its pods. If the nodes disappeared first, nothing would terminate their
	// pods, and the cluster would wait most of a minute before giving them up.
	anchor metav1.OwnerReference
	within map[string]bool // the population's namespaces
	wanted map[string]bool // the objects, by key
}

// of returns the owner of an object; nil for one that is deleted with its namespace.
func (b owners) of(o *unstructured.Unstructured) []metav1.OwnerReference {
	switch {
	case o.GetKind() == "Node":
		return []metav1.OwnerReference{b.anchor}
	case o.GetKind() == "Namespace", !b.within[o.GetNamespace()]:
		return []metav1.OwnerReference{b.owner}
	}
	return nil
}

// ownership returns the owners of the wanted objects while the cluster has have; nil
// if the population has no owner.
func (w *World) ownership(want []*unstructured.Unstructured, have map[string]*unstructured.Unstructured) *owners {
	if w.owner == nil || len(want) == 0 {
		return nil
	}
	b := &owners{owner: *w.owner, anchor: *w.owner, within: map[string]bool{}, wanted: map[string]bool{}}
	for _, o := range want {
		b.wanted[Key(o)] = true
		if o.GetKind() != "Namespace" {
			continue
		}
		now := have[Key(o)]
		if len(b.within) == 0 && now != nil && now.GetDeletionTimestamp() == nil {
			b.anchor = metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: o.GetName(), UID: now.GetUID()}
		}
		b.within[o.GetName()] = true
	}
	return b
}

// adopt corrects the owners of existing objects that are wanted, and of nodes, which
// stay. It returns the resulting objects of the cluster: those of a deleted owner may
// be gone.
func (w *World) adopt(ctx context.Context, b *owners, have map[string]*unstructured.Unstructured) (map[string]*unstructured.Unstructured, error) {
	if b == nil {
		return have, nil
	}
	var strange []*unstructured.Unstructured
	for k, o := range have {
		if stays := b.wanted[k] || o.GetKind() == "Node"; !stays || o.GetDeletionTimestamp() != nil {
			continue
		}
		if !slices.Equal(uids(o.GetOwnerReferences()), uids(b.of(o))) {
			strange = append(strange, o)
		}
	}
	if len(strange) == 0 {
		return have, nil
	}
	err := each(ctx, strange, func(ctx context.Context, o *unstructured.Unstructured) error {
		r, err := ResourceOf(o)
		if err != nil {
			return err
		}
		// The UID is a precondition: it excludes another object of the same name.
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID(), "ownerReferences": b.of(o)}})
		if err != nil {
			return err
		}
		_, err = w.metadata.Resource(r.GroupVersionResource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("take over %s: %w", Key(o), err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w.listed(ctx)
}

func uids(references []metav1.OwnerReference) []types.UID {
	var out []types.UID
	for _, r := range references {
		out = append(out, r.UID)
	}
	return out
}
