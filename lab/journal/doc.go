// Package journal keeps, in a cluster that is somebody else's, what a run
// changes outside of its own namespaces, so that whoever comes next can put it
// back: the run itself, the next one, or `meshtrial cluster restore`.
//
// A cluster has one Lease. Whoever holds it is the only one that changes
// anything; so what another left in the journal is left by the dead. Before an
// object is changed its entry says which fields had which values and which they
// are about to have. To put an object back is to compare: a field that is
// neither as written nor as it was has been changed by somebody else, and is
// left alone.
//
// What somebody asked to stay ([Journal.Keep]) is put back on request alone, and
// whoever comes next is told of it.
//
// Lease and entries live in a namespace of their own ([Namespace]). It goes when
// the last entry does.
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
