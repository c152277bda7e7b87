package generate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"
)

// Label marks generated Sidecars, which a later one may replace.
const (
	Label      = "meshtrial.dev/generated"
	labelValue = "scope"
)

// Changes of a Sidecar.
const (
	Create = "create"
	Change = "change"
	Same   = "none"
	Delete = "delete"
)

// Sidecar is a Sidecar resource: for the mesh in its root namespace, for a namespace, or with a
// selector for the pods of one workload.
type Sidecar struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Selector  map[string]string `json:"workload_selector,omitempty"`
	Hosts     []string          `json:"hosts"`  // of the egress listener for all ports
	Change    string            `json:"change"` // create, change, none or delete
	Reason    ReasonCode        `json:"reason,omitempty"`
	Lost      float64           `json:"lost_ratio,omitempty"` // for ReasonException: the share of the saving that would be lost without it
	// Workloads lists the workloads that it governs.
	Workloads []string `json:"workloads,omitempty"`

	labels, annotations map[string]string

	rest  map[string]any // its spec except workloadSelector and egress
	whole map[string]any // its existing spec
	// some means that it has a workload selector, even one that selects all pods.
	some    bool
	created time.Time
	mesh    bool // the default of the mesh
	fixed   bool // it has its own egress listeners, so it cannot be replaced
}

// ReasonCode identifies the reason for a Sidecar.
type ReasonCode string

// The reasons for Sidecars.
const (
	ReasonMesh       ReasonCode = "mesh_default"
	ReasonNeeded     ReasonCode = "needed"
	ReasonNarrower   ReasonCode = "narrower_than_default"
	ReasonException  ReasonCode = "exception"
	ReasonUnseen     ReasonCode = "unseen_workload"
	ReasonUnseenSome ReasonCode = "unseen_some"
	ReasonUseless    ReasonCode = "of_no_use"
	ReasonTheirs     ReasonCode = "not_generated"
)

// String returns NAMESPACE/NAME.
func (s Sidecar) String() string { return s.Namespace + "/" + s.Name }

func (s Sidecar) generated() bool { return s.labels[Label] == labelValue }

// selective reports whether a Sidecar has a workload selector. istiod checks these first; one in
// the root namespace is not the mesh's default.
func (s Sidecar) selective() bool { return s.some || len(s.Selector) > 0 }

// existingSidecar reads a Sidecar in the mesh.
func existingSidecar(o object) (Sidecar, error) {
	s := Sidecar{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, labels: o.Metadata.Labels,
		annotations: maps.Clone(o.Metadata.Annotations), created: o.Metadata.Created}
	delete(s.annotations, "kubectl.kubernetes.io/last-applied-configuration")
	var spec struct {
		WorkloadSelector *struct {
			Labels map[string]string `json:"labels"`
		} `json:"workloadSelector"`
		Egress []map[string]json.RawMessage `json:"egress"`
	}
	if err := cmp.Or(field(o.Spec, "spec", &spec), field(o.Spec, "spec", &s.whole)); err != nil {
		return s, err
	}
	s.rest = maps.Clone(s.whole)
	delete(s.rest, "workloadSelector")
	delete(s.rest, "egress")
	if spec.WorkloadSelector != nil {
		s.some, s.Selector = true, spec.WorkloadSelector.Labels
	}
	for i, listener := range spec.Egress {
		var hosts []string
		name := fmt.Sprintf("spec.egress[%d].hosts", i)
		if err := field(listener["hosts"], name, &hosts); err != nil {
			return s, err
		}
		if len(hosts) == 0 {
			return s, fmt.Errorf("%s is empty: an egress listener must have a host", name)
		}
		for j, host := range hosts {
			if strings.Count(host, "/") != 1 {
				return s, fmt.Errorf("%s[%d]: %.100q is not NAMESPACE/HOST", name, j, host)
			}
		}
		s.Hosts = append(s.Hosts, hosts...)
		s.fixed = s.fixed || len(listener) > 1 || len(spec.Egress) > 1
	}
	if len(s.Hosts) == 0 {
		s.Hosts = []string{"*/*"} // istiod's default
	}
	return s, nil
}

// admits reports whether egress hosts admit a host, for proxies of a namespace
// (pilot/pkg/model/sidecar.go, hostClassification).
func admits(hosts []string, own string, h Host) bool {
	admitted := false
	for _, entry := range hosts {
		namespace, name, _ := strings.Cut(entry, "/")
		excluded := strings.HasPrefix(namespace, "~")
		if excluded {
			namespace = cmp.Or(strings.TrimPrefix(namespace, "~"), "*")
		}
		if namespace == "." {
			namespace = own
		}
		if namespace != "*" && namespace != h.Namespace || !subset(h.Name, name) {
			continue
		}
		if excluded {
			return false
		}
		admitted = true
	}
	return admitted
}

// missing returns the hosts that egress hosts do not admit, sorted.
func missing(hosts []string, own string, of set) []Host {
	return slices.DeleteFunc(of.sorted(), func(h Host) bool { return admits(hosts, own, h) })
}

// older reports whether istiod prefers a Sidecar to another. It prefers the older one; one that
// does not exist yet is the youngest.
func (s Sidecar) older(than Sidecar) bool {
	switch {
	case s.created.Equal(than.created):
		return s.Name < than.Name
	case s.created.IsZero() || than.created.IsZero():
		return than.created.IsZero()
	}
	return s.created.Before(than.created)
}

// effective returns the Sidecar that governs pods with these labels in a namespace, as istiod
// chooses: first by selector, then the namespace's, then the root namespace's. Without any, it
// returns a Sidecar that admits everything.
func effective(all []Sidecar, root, namespace string, labels map[string]string) Sidecar {
	best, rank := Sidecar{Hosts: []string{"*/*"}}, 0
	for _, s := range all {
		r := 0
		switch {
		case s.Namespace == namespace && s.selective():
			if contains(labels, s.Selector) {
				r = 3
			}
		case s.Namespace == namespace:
			r = 2
		case s.Namespace == root && !s.selective():
			r = 1
		}
		if r > rank || r > 0 && r == rank && s.older(best) {
			best, rank = s, r
		}
	}
	return best
}

// object returns the manifest of a Sidecar with a spec.
func (s Sidecar) object(spec map[string]any) map[string]any {
	metadata := map[string]any{"name": s.Name, "namespace": s.Namespace}
	if len(s.labels) > 0 {
		metadata["labels"] = s.labels
	}
	if len(s.annotations) > 0 {
		metadata["annotations"] = s.annotations
	}
	return map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": metadata, "spec": spec}
}

// after returns the manifest of the generated Sidecar.
func (s Sidecar) after() map[string]any {
	spec := map[string]any{}
	maps.Copy(spec, s.rest)
	if len(s.Selector) > 0 {
		spec["workloadSelector"] = map[string]any{"labels": s.Selector}
	}
	spec["egress"] = []any{map[string]any{"hosts": s.Hosts}}
	return s.object(spec)
}

// manifest formats an object; "" for none.
func manifest(object map[string]any) string {
	if object == nil {
		return ""
	}
	text, err := yaml.Marshal(object)
	if err != nil { // cannot fail: it consists of strings, lists and maps
		panic(err)
	}
	return string(text)
}

// Step is one change of an object.
type Step struct {
	Sidecar
	// Before and After are the whole object, or nil if it does not exist.
	Before, After map[string]any
}

// plain converts an object to JSON types, as clients of the API require.
func plain(object map[string]any) (out map[string]any) {
	if err := yaml.Unmarshal([]byte(manifest(object)), &out); err != nil {
		panic(err)
	}
	return out
}

// Steps returns the changes in an order in which no workload lacks what it needs in between:
// Sidecars of workloads, then of namespaces, then the mesh's, then deletions.
func (r Result) Steps() []Step {
	var out []Step
	for _, s := range r.Sidecars {
		if s.Change == Same {
			continue
		}
		step := Step{Sidecar: s}
		if old, found := r.existing[s.String()]; found {
			step.Before = plain(old.object(old.whole))
		}
		if s.Change != Delete {
			step.After = plain(s.after())
		}
		out = append(out, step)
	}
	rank := func(s Step) int {
		switch {
		case s.Change == Delete:
			return 3
		case s.mesh:
			return 2
		}
		return b2i(!s.selective())
	}
	slices.SortStableFunc(out, func(a, b Step) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Manifests formats the Sidecars to create or change, each with its reason, and names those to
// delete, in the order in which to apply them.
func (r Result) Manifests() string {
	var b strings.Builder
	for _, s := range r.Steps() {
		if s.After != nil {
			fmt.Fprintf(&b, "---\n# %s\n%s", s.Because(), manifest(s.After))
		} else {
			fmt.Fprintf(&b, "# %s; remove it: kubectl delete sidecars.networking.istio.io -n %s %s\n", s.Because(), s.Namespace, s.Name)
		}
	}
	if b.Len() == 0 {
		return "# Nothing is to be changed.\n"
	}
	return b.String()
}

// Diff returns the effect of applying the manifests as a unified diff.
func (r Result) Diff() string {
	var b strings.Builder
	for _, s := range r.Steps() {
		from, to := "a/"+s.String(), "b/"+s.String()
		if s.Before == nil {
			from = "/dev/null"
		}
		if s.After == nil {
			to = "/dev/null"
		}
		b.Write(diff.Diff(from, []byte(manifest(s.Before)), to, []byte(manifest(s.After))))
	}
	return b.String()
}
