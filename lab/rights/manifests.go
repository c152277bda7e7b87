package rights

import (
	"fmt"
	"strings"
)

// Subject is a user, group or service account that gets rights.
type Subject struct {
	Kind      string // User, Group or ServiceAccount
	Name      string
	Namespace string // of a ServiceAccount
}

// roleName returns the name of the subject's roles and bindings: manifests for
// one subject must not replace another's. See
// k8s.io/apimachinery/pkg/api/validation/path, IsValidPathSegmentName, for
// characters that names may not contain.
func (s Subject) roleName() string {
	name := s.Name
	if s.Namespace != "" {
		name = s.Namespace + ":" + name
	}
	return "meshtrial:" + strings.NewReplacer("/", "-", "%", "-").Replace(name)
}

// Manifests writes YAML that grants a subject exactly these rights, with the
// namespaces that [Place] filled in. A ClusterRole holds what applies everywhere
// or in the run's own namespace, whose name is unknown beforehand; each other
// namespace has a Role. Manifests fails for an object of a study whose resource
// is not known yet.
func Manifests(features []Feature, to Subject) ([]byte, error) {
	byPlace := map[string][]Right{} // by namespace, "" for the cluster
	journal := ""                   // its namespace
	for i := range features {
		for k := range features[i].Rights {
			r := &features[i].Rights[k]
			if r.Where != OfURL && r.Resource == "" {
				return nil, fmt.Errorf("the resource of kind %s is unknown", r.Name())
			}
			place := r.Namespace
			if r.Where == InRun {
				place = ""
			}
			if r.Where == InJournal {
				journal = r.Namespace
			}
			byPlace[place] = append(byPlace[place], *r)
		}
	}
	w := &manifests{to: to, name: to.roleName()}
	if journal != "" {
		w.object("v1", "Namespace", journal, "")
	}
	for _, namespace := range sorted(byPlace) {
		w.role(namespace, byPlace[namespace])
	}
	return []byte(w.out.String()), nil
}

// manifests writes objects one after the other. It quotes names as JSON strings,
// which are valid YAML.
type manifests struct {
	to   Subject
	name string
	out  strings.Builder
}

const rbacGroup = "rbac.authorization.k8s.io"

func (w *manifests) line(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// object begins an object.
func (w *manifests) object(version, kind, name, namespace string) {
	if w.out.Len() > 0 {
		w.line("---")
	}
	w.line("apiVersion: %s\nkind: %s\nmetadata:\n  name: %q", version, kind, name)
	if namespace != "" {
		w.line("  namespace: %q", namespace)
	}
	w.line("  labels: {app.kubernetes.io/part-of: meshtrial}")
}

// role writes the role of a namespace (or of the cluster, with "") and its
// binding.
func (w *manifests) role(namespace string, all []Right) {
	kind := "Role"
	if namespace == "" {
		kind = "ClusterRole"
	}
	w.object(rbacGroup+"/v1", kind, w.name, namespace)
	w.line("rules:")
	w.rules(all)
	w.object(rbacGroup+"/v1", kind+"Binding", w.name, namespace)
	w.line("roleRef: {apiGroup: %s, kind: %s, name: %q}\nsubjects:", rbacGroup, kind, w.name)
	if w.to.Namespace != "" {
		w.line("- {kind: %s, name: %q, namespace: %q}", w.to.Kind, w.to.Name, w.to.Namespace)
	} else {
		w.line("- {apiGroup: %s, kind: %s, name: %q}", rbacGroup, w.to.Kind, w.to.Name)
	}
}

// rules groups rights by resource, then resources of a group that have the same
// verbs.
func (w *manifests) rules(all []Right) {
	verbs := map[string]map[string]bool{} // by group and resource; the group of a path is a slash
	for i := range all {
		r := &all[i]
		key := r.Group + " " + r.Resource
		if r.Subresource != "" {
			key += "/" + r.Subresource
		}
		if r.Where == OfURL {
			key = "/ " + r.URL
		}
		if verbs[key] == nil {
			verbs[key] = map[string]bool{}
		}
		for _, v := range r.Verbs {
			verbs[key][v] = true
		}
	}
	alike := map[string][]string{} // resources by group and verbs
	for _, key := range sorted(verbs) {
		group, name, _ := strings.Cut(key, " ")
		k := group + " " + strings.Join(sorted(verbs[key]), ", ")
		alike[k] = append(alike[k], fmt.Sprintf("%q", name))
	}
	for _, k := range sorted(alike) {
		group, words, _ := strings.Cut(k, " ")
		names := strings.Join(alike[k], ", ")
		if group == "/" {
			w.line("- {nonResourceURLs: [%s], verbs: [%s]}", names, words)
		} else {
			w.line("- {apiGroups: [%q], resources: [%s], verbs: [%s]}", group, names, words)
		}
	}
}
