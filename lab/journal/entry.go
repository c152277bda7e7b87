package journal

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// Object names an object of the cluster.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// ObjectOf returns the name of an object.
func ObjectOf(o *unstructured.Unstructured) Object {
	return Object{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// String returns Kind namespace/name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Same reports whether both name the same object, in any API version of its group.
func (o Object) Same(other Object) bool { return o.sum() == other.sum() }

// Bare returns an object with only its name.
func (o Object) Bare() *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetAPIVersion(o.APIVersion)
	out.SetKind(o.Kind)
	out.SetNamespace(o.Namespace)
	out.SetName(o.Name)
	return out
}

// Done says what was done to an object.
type Done string

const (
	Changed Done = "changed"
	Made    Done = "made"    // it did not exist
	Removed Done = "removed" // it no longer exists
)

// Entry is the record of one object.
type Entry struct {
	Schema int       `json:"schema"`
	Number int       `json:"number"` // order in which objects were first changed
	Run    string    `json:"run"`
	At     time.Time `json:"at"`
	// Why is the reason for the change, as text.
	Why    string `json:"why"`
	Object Object `json:"object"`
	// UID is the object's UID at the last write. For a created object it is empty until
	// the creation is recorded.
	UID  string `json:"uid,omitempty"`
	Done Done   `json:"done"`
	// Fields are the changed fields, or all fields of a created object.
	Fields []fields.Field `json:"fields,omitempty"`
	// Whole is the removed object, even if another was created in its place.
	Whole map[string]any `json:"whole,omitempty"`
	// Left describes what was not reverted because someone else had changed it, and
	// LeftFields holds those fields. A person must decide about them; reverting skips
	// them from then on. LeftWhole marks a created or removed object that was left.
	Left       string         `json:"left,omitempty"`
	LeftFields []fields.Field `json:"left_fields,omitempty"`
	LeftWhole  bool           `json:"left_whole,omitempty"`

	// Kept says who asked for the change to outlast its run. Such a change is reverted
	// only on request.
	Kept string `json:"kept,omitempty"`

	version string // resource version of the Secret; "" before it exists
}

const (
	schemaVersion = 1
	entryKey      = "entry"
	entryLabel    = "entry"
	// maxEntry is the maximum size of an entry, in bytes: a Secret holds 1 MiB.
	maxEntry = 900 << 10
)

// secretName returns the name of the entry's Secret. An object has one entry of the
// active run, and one for each run whose change is kept.
func (e *Entry) secretName() string {
	if e.Kept == "" {
		return e.Object.secretName()
	}
	return "kept-" + e.Object.sum() + "-" + shortSum(e.Run)
}

// secretName returns the name of the Secret with an object's entry.
func (o Object) secretName() string { return "entry-" + o.sum() }

func (o Object) sum() string {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	if !strings.Contains(o.APIVersion, "/") {
		group = ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{group, o.Kind, o.Namespace, o.Name}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// secret encodes the entry as a Secret.
func (e *Entry) secret() (*unstructured.Unstructured, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("journal of %s: %w", e.Object, err)
	}
	if len(text) > maxEntry {
		return nil, errs.WithHint(fmt.Errorf("%s is too large for the journal: %d bytes, at most %d", e.Object, len(text), maxEntry),
			"nothing was changed; change fewer fields")
	}
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "meshtrial.dev/journal",
		"metadata": map[string]any{"name": e.secretName(), "namespace": Namespace, "labels": map[string]any{Label: entryLabel}},
		"data":     map[string]any{entryKey: base64.StdEncoding.EncodeToString(text)},
	}}
	if e.version != "" {
		out.SetResourceVersion(e.version)
	}
	return out, nil
}

// parseEntry decodes a Secret of the journal.
func parseEntry(s *unstructured.Unstructured) (*Entry, error) {
	fail := func(err error) (*Entry, error) {
		return nil, errs.WithHint(fmt.Errorf("journal: Secret %s/%s: %w", Namespace, s.GetName(), err),
			"it records an object's state before a run changed it; inspect it before you delete it")
	}
	coded, _, err := unstructured.NestedString(s.Object, "data", entryKey)
	if err != nil {
		return fail(err)
	}
	text, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return fail(err)
	}
	var e Entry
	if err := json.Unmarshal(text, &e); err != nil {
		return fail(err)
	}
	switch {
	case e.Schema != schemaVersion:
		return fail(fmt.Errorf("its schema is %d, this program reads %d", e.Schema, schemaVersion))
	case e.Object.Kind == "" || e.Object.Name == "" || e.Object.APIVersion == "":
		return fail(errors.New("it names no object"))
	case !slices.Contains([]Done{Changed, Made, Removed}, e.Done):
		return fail(fmt.Errorf("unknown kind of change %q", e.Done))
	case e.secretName() != s.GetName():
		return fail(fmt.Errorf("it does not belong to %s", e.Object))
	}
	e.version = s.GetResourceVersion()
	return &e, nil
}

// UnreadableError names the entries that cannot be read.
type UnreadableError struct{ error }

func (e *UnreadableError) Unwrap() error { return e.error }

// Entries reads the journal in the order of writing; it returns none if there is no
// journal. With an [UnreadableError] it returns the readable entries.
func Entries(ctx context.Context, kube dynamic.Interface) ([]*Entry, error) {
	list, err := kube.Resource(secrets).Namespace(Namespace).List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + entryLabel})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal in namespace %s: %w", Namespace, err)
	}
	var out []*Entry
	var all []error
	for i := range list.Items {
		e, err := parseEntry(&list.Items[i])
		if err != nil {
			all = append(all, err)
			continue
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *Entry) int { return a.Number - b.Number })
	if len(all) > 0 {
		return out, &UnreadableError{errors.Join(all...)}
	}
	return out, nil
}

// readable returns the entries that can be read; [Journal.Restore] reports the others.
func (j *Journal) readable(ctx context.Context) ([]*Entry, error) {
	entries, err := Entries(ctx, j.kube)
	if unreadable := (*UnreadableError)(nil); errors.As(err, &unreadable) {
		err = nil
	}
	return entries, err
}

// settled reports whether the entry has nothing to revert, though a decision about
// fields left alone may be pending.
func (e *Entry) settled() bool {
	return e.LeftWhole || e.Left != "" && e.Done == Changed && len(e.Fields) == 0
}

// find reads an object's entry, or returns nil if there is none.
func find(ctx context.Context, kube dynamic.Interface, o Object) (*Entry, error) {
	s, err := kube.Resource(secrets).Namespace(Namespace).Get(ctx, o.secretName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal of %s: %w", o, err)
	}
	return parseEntry(s)
}

// save writes an entry before its object changes.
func (e *Entry) save(ctx context.Context, kube dynamic.Interface) error {
	s, err := e.secret()
	if err != nil {
		return err
	}
	api := kube.Resource(secrets).Namespace(Namespace)
	var written *unstructured.Unstructured
	if e.version == "" {
		written, err = api.Create(ctx, s, metav1.CreateOptions{FieldManager: FieldManager})
	} else {
		written, err = api.Update(ctx, s, metav1.UpdateOptions{FieldManager: FieldManager})
	}
	if err != nil {
		return fmt.Errorf("record the state of %s before changing it: %w", e.Object, err)
	}
	e.version = written.GetResourceVersion()
	return nil
}

// forget removes an entry in the version last read or written. It does not remove an
// entry that another run has since made for the same object.
func (e *Entry) forget(ctx context.Context, kube dynamic.Interface) error {
	err := kube.Resource(secrets).Namespace(Namespace).Delete(ctx, e.secretName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &e.version}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove %s from the journal: %w", e.Object, err)
	}
	e.version = ""
	return nil
}
