package rights

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Subject is who gets rights.
type Subject struct {
	Kind      string // User, Group or ServiceAccount
	Name      string
	Namespace string // of a ServiceAccount
}

// roleName is that of the subject's roles and bindings: manifests for one do not
// replace another's. See k8s.io/apimachinery/pkg/api/validation/path,
// IsValidPathSegmentName, for what names may not have.
func (s Subject) roleName() string {
	name := s.Name
	if s.Namespace != "" {
		name = s.Namespace + ":" + name
	}
	return "meshtrial:" + strings.NewReplacer("/", "-", "%", "-").Replace(name)
}

// rule is a rule of a role; see rbac.authorization.k8s.io/v1, PolicyRule.
type rule struct {
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
	Verbs           []string `json:"verbs"`
}

// Manifests writes YAML that grants a subject exactly these rights, which
// [Place] has given their namespaces: a ClusterRole for what must hold
// everywhere, and for the run's own namespace, whose name nobody knows
// beforehand; a Role in each other namespace. It fails for an object of a
// study whose resource is not known yet.
func Manifests(features []Feature, to Subject) ([]byte, error) {
	byPlace := map[string][]Right{} // by namespace, "" for the cluster
	journal := false
	for _, f := range features {
		for _, r := range f.Rights {
			if r.Where != OfURL && r.Resource == "" {
				return nil, fmt.Errorf("which resource has objects of kind %s is not known", r.Name())
			}
			place := r.Namespace
			if r.Where == InRun {
				place = ""
			}
			journal = journal || r.Where == InJournal
			byPlace[place] = append(byPlace[place], r)
		}
	}
	var objects []any
	name := to.roleName()
	if journal {
		objects = append(objects, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(JournalNamespace, "")})
	}
	for _, namespace := range sorted(byPlace) {
		kind, binding := "Role", "RoleBinding"
		if namespace == "" {
			kind, binding = "ClusterRole", "ClusterRoleBinding"
		}
		const group = "rbac.authorization.k8s.io"
		subject := map[string]any{"kind": to.Kind, "name": to.Name}
		if to.Kind == "ServiceAccount" {
			subject["namespace"] = to.Namespace
		} else {
			subject["apiGroup"] = group
		}
		objects = append(objects,
			map[string]any{"apiVersion": group + "/v1", "kind": kind, "metadata": metadata(name, namespace), "rules": rules(byPlace[namespace])},
			map[string]any{"apiVersion": group + "/v1", "kind": binding, "metadata": metadata(name, namespace),
				"roleRef": map[string]any{"apiGroup": group, "kind": kind, "name": name}, "subjects": []any{subject}})
	}
	var out bytes.Buffer
	for i, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("write a manifest: %w", err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

func metadata(name, namespace string) map[string]any {
	out := map[string]any{"name": name, "labels": map[string]any{"app.kubernetes.io/part-of": "meshtrial"}}
	if namespace != "" {
		out["namespace"] = namespace
	}
	return out
}

// rules put together what is of one resource, then resources of a group that
// have the same verbs.
func rules(all []Right) []rule {
	verbs := map[[2]string]map[string]bool{} // by group and resource; of a path the group is a slash
	for _, r := range all {
		key := [2]string{r.Group, r.Resource}
		if r.Subresource != "" {
			key[1] += "/" + r.Subresource
		}
		if r.Where == OfURL {
			key = [2]string{"/", r.URL}
		}
		if verbs[key] == nil {
			verbs[key] = map[string]bool{}
		}
		for _, v := range r.Verbs {
			verbs[key][v] = true
		}
	}
	alike := map[string][]string{} // resources by group and verbs
	for key, set := range verbs {
		k := key[0] + " " + strings.Join(sorted(set), " ")
		alike[k] = append(alike[k], key[1])
	}
	var out []rule
	for _, k := range sorted(alike) {
		group, words, _ := strings.Cut(k, " ")
		names := alike[k]
		slices.Sort(names)
		r := rule{Verbs: strings.Fields(words)}
		if group == "/" {
			r.NonResourceURLs = names
		} else {
			r.APIGroups, r.Resources = []string{group}, names
		}
		out = append(out, r)
	}
	return out
}
