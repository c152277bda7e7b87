package istio

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
)

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definition is a version of a kind that a CustomResourceDefinition serves.
type definition struct {
	resource schema.GroupVersionResource
	kind     string
	schema   map[string]any // of its objects
}

// definitionsOf returns the served versions of definitions, by group, version and kind.
func definitionsOf(objects []*unstructured.Unstructured) map[string]definition {
	out := map[string]definition{}
	for _, o := range objects {
		text := func(fields ...string) string {
			s, _, _ := unstructured.NestedString(o.Object, fields...)
			return s
		}
		group, kind := text("spec", "group"), text("spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			name, _ := version["name"].(string)
			if served, _ := version["served"].(bool); !served {
				continue
			}
			fields, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
			out[group+"/"+name+" "+kind] = definition{schema.GroupVersionResource{Group: group, Version: name, Resource: text("spec", "names", "plural")}, kind, fields}
		}
	}
	return out
}

// fitDefinitions rejects a version of Istio that needs kinds or versions of kinds that the
// cluster does not serve. Its notes name fields of existing objects that the version does not
// know, and therefore ignores.
func fitDefinitions(ctx context.Context, config *rest.Config, version string, needs []*unstructured.Unstructured) ([]note.Note, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return fitServed(ctx, objects, version, needs)
}

func fitServed(ctx context.Context, objects dynamic.Interface, version string, needs []*unstructured.Unstructured) ([]note.Note, error) {
	there, err := objects.Resource(definitionResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("istio: list the cluster's CRDs: %w", err)
	}
	installed := make([]*unstructured.Unstructured, len(there.Items))
	for i := range there.Items {
		installed[i] = &there.Items[i]
	}
	served, wanted := definitionsOf(installed), definitionsOf(needs)
	var lacks []string
	for name := range wanted {
		if _, ok := served[name]; !ok {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) > 0 {
		slices.Sort(lacks)
		return nil, errs.WithHint(errs.Usage("the second Istio, %s, reads kinds that the cluster's CRDs do not serve: %s", version, strings.Join(lacks, ", ")),
			"install the newer version of Istio first, with its CRDs, and give the older one as the second")
	}
	var notes []note.Note
	for _, d := range newest(wanted) {
		all, err := objects.Resource(d.resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("istio: list %s: %w", d.resource.Resource, err)
		}
		having := map[string][]string{} // names of objects by field
		for _, o := range all.Items {
			for _, field := range unknownFields(d.schema, o.Object) {
				having[field] = append(having[field], o.GetNamespace()+"/"+o.GetName())
			}
		}
		for _, field := range slices.Sorted(maps.Keys(having)) {
			var more any
			if n := len(having[field]); n > 1 {
				more = n - 1
			}
			notes = append(notes, noteFieldIgnored.Of(version, field, d.kind, slices.Min(having[field]), more))
		}
	}
	return notes, nil
}

// newest returns one definition for each kind, sorted: that of its newest version. The API server
// converts the same objects to each version.
func newest(all map[string]definition) []definition {
	of := map[schema.GroupResource]definition{}
	for _, d := range all {
		name := d.resource.GroupResource()
		if known, ok := of[name]; !ok || version.CompareKubeAwareVersionStrings(d.resource.Version, known.resource.Version) > 0 {
			of[name] = d
		}
	}
	return slices.SortedFunc(maps.Values(of), func(a, b definition) int {
		return cmp.Or(cmp.Compare(a.resource.Group, b.resource.Group), cmp.Compare(a.kind, b.kind))
	})
}

// unknownFields returns the paths of an object's fields below spec that a schema lacks, each once.
// Elements of lists are [].
func unknownFields(of map[string]any, object map[string]any) []string {
	fields, _ := of["properties"].(map[string]any)
	spec, ok := fields["spec"].(map[string]any)
	if !ok {
		return nil
	}
	out := beyondSchema(spec, object["spec"], "spec")
	slices.Sort(out)
	return slices.Compact(out)
}

func beyondSchema(of map[string]any, value any, path string) (out []string) {
	if keeps, _ := of["x-kubernetes-preserve-unknown-fields"].(bool); keeps {
		return nil
	}
	switch value := value.(type) {
	case []any:
		items, ok := of["items"].(map[string]any)
		for i := 0; ok && i < len(value); i++ {
			out = append(out, beyondSchema(items, value[i], path+"[]")...)
		}
	case map[string]any:
		fields, _ := of["properties"].(map[string]any)
		others, free := of["additionalProperties"].(map[string]any)
		if of["additionalProperties"] == true {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			inner, known := fields[name].(map[string]any)
			switch {
			case known:
				out = append(out, beyondSchema(inner, value[name], path+"."+name)...)
			case free:
				out = append(out, beyondSchema(others, value[name], path+"."+name)...)
			default:
				out = append(out, path+"."+name)
			}
		}
	}
	return out
}
