// Package journal records, in a cluster that belongs to others, what a run changes outside
// its own namespaces, so that the run itself, the next run, or `meshtrial cluster restore`
// can revert it.
//
// A cluster has one Lease, and only its holder makes changes: entries of another run
// belong to a dead one. Before an object changes, its entry records the affected fields
// with their old and new values. Reverting compares values: someone else changed a field
// that has neither of the two, and it is left alone.
//
// Changes that a user asked to keep ([Journal.Keep]) are reverted only on request, and
// later runs report them.
//
// Lease and entries live in a dedicated namespace ([Namespace]), which is removed with the
// last entry.
package journal

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Namespace holds the Lease and the entries.
const Namespace = "meshtrial-journal"

// Label marks objects that belong to the journal.
const Label = "meshtrial.dev/journal"

// FieldManager is the field manager of all writes.
const FieldManager = "meshtrial"

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// Opener finds the API endpoint of an object's kind; lab.Applier is one.
type Opener interface {
	Open(ctx context.Context, object *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error)
}
