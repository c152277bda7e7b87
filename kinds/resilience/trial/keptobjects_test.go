package trial

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Webhooks and CRDs of others must survive the removal of a control plane unchanged. What belongs
// to it, and what is new, does not matter.
func TestSharedObjects(t *testing.T) {
	lists := map[schema.GroupVersionResource]string{sharedResources[0]: "MutatingWebhookConfigurationList", sharedResources[1]: "ValidatingWebhookConfigurationList", sharedResources[2]: "CustomResourceDefinitionList"}
	object := func(version, kind, name, uid, key, value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "uid": uid}, key: value}}
	}
	hook := func(name, uid, webhooks string) *unstructured.Unstructured {
		return object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", name, uid, "webhooks", webhooks)
	}
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things", "3", "spec", "x")
	ours := []*unstructured.Unstructured{hook("canary", "2", "c")}
	read := func(all ...*unstructured.Unstructured) sharedObjects {
		var objects []runtime.Object
		for _, o := range all {
			objects = append(objects, o)
		}
		out, err := readShared(t.Context(), dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...), ours)
		must.OK(t, err)
		return out
	}
	before := read(hook("first", "1", "a"), definition)
	for says, now := range map[string]sharedObjects{
		"": read(hook("first", "1", "a"), hook("canary", "2", "c"), hook("new", "4", "n"), definition),
		"MutatingWebhookConfiguration first has changed": read(hook("first", "1", "b"), definition),
		"MutatingWebhookConfiguration first is gone":     read(definition),
		"CustomResourceDefinition things is gone":        read(hook("first", "1", "a")),
	} {
		if err := before.unchanged(now); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if err := before.unchanged(read(hook("first", "5", "a"), definition)); err == nil {
		t.Error("another object of the same name passes")
	}
}
