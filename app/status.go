package app

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/site"
)

// ClusterStatus says who is at work in a cluster, and what runs have changed there.
type ClusterStatus struct {
	Schema int `json:"schema"`
	// Holder is the run that has the cluster's Lease; none: nobody.
	Holder *journal.Holder `json:"holder,omitempty"`
	// Changes are those that have not been reverted.
	Changes []ClusterChange `json:"changes"`
	// Namespaces are those that runs made.
	Namespaces []ClusterNamespace `json:"namespaces"`
	// NamespacesHidden means that the user may not list namespaces, so Namespaces is empty.
	NamespacesHidden bool `json:"namespaces_hidden,omitempty"`
}

// ClusterChange is a change of an object that has not been reverted.
type ClusterChange struct {
	Object string       `json:"object"`
	Run    string       `json:"run"`
	Since  time.Time    `json:"since"`
	Done   journal.Done `json:"done"`
	Why    string       `json:"why"`
	Fields []string     `json:"fields,omitempty"`
	Left   string       `json:"left,omitempty"`
	// Kept says by whom it was asked for that the change stays.
	Kept string `json:"kept,omitempty"`
}

// ClusterNamespace is a namespace that a run made.
type ClusterNamespace struct {
	Name  string    `json:"name"`
	Run   string    `json:"run"`
	Since time.Time `json:"since"`
	Owner string    `json:"owner,omitempty"`
}

// ReadClusterStatus reads the status of a cluster, and changes nothing.
func ReadClusterStatus(ctx context.Context, config *rest.Config) (ClusterStatus, error) {
	out := ClusterStatus{Schema: 1, Changes: []ClusterChange{}, Namespaces: []ClusterNamespace{}}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return out, err
	}
	if out.Holder, err = journal.At(ctx, objects); err != nil {
		return out, err
	}
	entries, err := journal.Entries(ctx, objects)
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		change := ClusterChange{Object: e.Object.String(), Run: e.Run, Since: e.At, Done: e.Done, Why: e.Why,
			Left: e.Left, Kept: e.Kept}
		for _, field := range e.Fields {
			if field.Order == nil && e.Done == journal.Changed {
				change.Fields = append(change.Fields, field.String())
			}
		}
		out.Changes = append(out.Changes, change)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return out, err
	}
	made, err := site.Leftovers(ctx, kube)
	if out.NamespacesHidden = apierrors.IsForbidden(err); err != nil && !out.NamespacesHidden {
		return out, err
	}
	for _, l := range made {
		out.Namespaces = append(out.Namespaces, ClusterNamespace{Name: l.Namespace, Run: l.Run, Since: l.Since,
			Owner: l.Owner})
	}
	return out, nil
}
