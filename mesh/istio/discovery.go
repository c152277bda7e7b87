package istio

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// givenLabels are on our namespaces, whatever the mesh is.
var givenLabels = map[string]string{"app.kubernetes.io/part-of": "meshtrial", "pod-security.kubernetes.io/enforce": "privileged"}

// LabelsFor are labels of a namespace that satisfy one of a mesh's discovery
// selectors and leave injection to the pods' own labels; nil if it needs none.
// An error, one of usage, says why none can be satisfied. See MeshConfig,
// discoverySelectors: a namespace is watched if any of them matches.
func LabelsFor(selectors []metav1.LabelSelector, revision string) (map[string]string, error) {
	if len(selectors) == 0 {
		return nil, nil
	}
	var best map[string]string
	found := false
	for i := range selectors {
		if got, ok := satisfying(&selectors[i], revision); ok && (!found || len(got) < len(best)) {
			best, found = got, true
		}
	}
	if found {
		return best, nil
	}
	text, err := json.Marshal(selectors)
	if err != nil {
		return nil, err
	}
	return nil, errs.WithHint(errs.Usage("istio: istiod watches only namespaces that its discoverySelectors match, and no label that a run's namespaces could have satisfies one of %s", text),
		"add a selector to meshConfig.discoverySelectors: matchLabels: {app.kubernetes.io/part-of: meshtrial}")
}

// satisfying chooses a value for each key on its own.
func satisfying(selector *metav1.LabelSelector, revision string) (map[string]string, bool) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, false
	}
	byKey := map[string][]labels.Requirement{}
	requirements, _ := parsed.Requirements()
	for _, r := range requirements {
		byKey[r.Key()] = append(byKey[r.Key()], r)
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		value, there, ok := valueFor(key, byKey[key], revision)
		if !ok {
			return nil, false
		}
		if there {
			out[key] = value
		}
	}
	return out, true
}

// valueFor is a value of one key that all its requirements accept; there is
// false if the namespace goes without the label.
func valueFor(key string, requirements []labels.Requirement, revision string) (value string, there, ok bool) {
	accepted := func(of labels.Set) bool {
		return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return !r.Matches(of) })
	}
	switch given := givenLabels[key]; {
	case given != "":
		return given, true, accepted(labels.Set{key: given})
	case key == "kubernetes.io/metadata.name": // the name itself, which no requirement knows beforehand
		return "", false, accepted(labels.Set{key: "meshtrial-"})
	case accepted(labels.Set{}):
		return "", false, true
	}
	candidates := []string{"true", "enabled", revision, "meshtrial"}
	for _, r := range requirements {
		candidates = append(candidates, r.ValuesUnsorted()...)
	}
	for _, value := range candidates {
		if harmless(key, value, revision) && accepted(labels.Set{key: value}) {
			return value, true, true
		}
	}
	return "", false, false
}

// harmless says that a label leaves our namespaces what they are: pods get this
// revision's sidecar, or none, by their own labels.
func harmless(key, value, revision string) bool {
	switch {
	case key == "istio-injection":
		return value == "enabled" && revision == defaultRevision
	case key == revisionLabel:
		return value == revision
	case key == "istio.io/dataplane-mode", key == "istio.io/use-waypoint", key == "linkerd.io/inject":
		return false
	}
	return !strings.HasPrefix(key, "meshtrial.dev/") && !strings.Contains(key, "kubernetes.io/")
}
