// Package journal records, in a cluster that belongs to others, what a run changes outside
// its own namespaces, so that the run itself, the next one, or `meshtrial cluster restore`
// can revert it.
//
// A cluster has one Lease, and only its holder changes anything: entries of another run
// belong to a dead one. Before an object is changed, its entry records the fields with
// their old and new values. Reverting compares: a field that has neither of the two was
// changed by somebody else, and is left alone.
//
// Changes that a user asked to keep ([Journal.Keep]) are reverted only on request, and
// later runs report them.
//
// Lease and entries live in a namespace of their own ([Namespace]), which is removed with
// the last entry.
package journal

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Namespace holds the Lease and the entries.
const Namespace = "meshtrial-journal"

// Label marks what belongs to the journal.
const Label = "meshtrial.dev/journal"

// FieldManager is the name under which objects are written.
const FieldManager = "meshtrial"

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// Opener finds where objects of a kind are in the API; lab.Applier is one.
type Opener interface {
	Open(ctx context.Context, object *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error)
}
