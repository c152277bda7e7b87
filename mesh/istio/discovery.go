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

// givenLabels are on our namespaces with every mesh.
var givenLabels = map[string]string{"app.kubernetes.io/part-of": "meshtrial", "pod-security.kubernetes.io/enforce": "privileged"}

// LabelsFor returns namespace labels that satisfy one of a mesh's discovery
// selectors and leave injection to the pods' own labels; nil if none are
// needed. It returns a usage error that says why if none can be satisfied. See
// MeshConfig, discoverySelectors: a namespace is watched if any of them
// matches.
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
	return nil, errs.WithHint(errs.Usage("istio: istiod watches only namespaces that its discoverySelectors match, and a run's namespaces match none of %s", text),
		"add a selector to meshConfig.discoverySelectors: matchLabels: {app.kubernetes.io/part-of: meshtrial}")
}

// satisfying chooses a value for each key independently.
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

// valueFor returns a value of a key that satisfies all its requirements; there is false if
// the label need not be set.
func valueFor(key string, requirements []labels.Requirement, revision string) (value string, there, ok bool) {
	accepted := func(of labels.Set) bool {
		return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return !r.Matches(of) })
	}
	switch given := givenLabels[key]; {
	case given != "":
		return given, true, accepted(labels.Set{key: given})
	case key == "kubernetes.io/metadata.name": // the namespace's name, which no requirement can know in advance
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

// harmless reports whether a label leaves the behaviour of our namespaces
// unchanged: pods get this revision's sidecar, or none, by their own labels.
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
