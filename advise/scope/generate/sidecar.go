package generate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"sort"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"
)

// Label marks Sidecars that were generated; a later one may take their place.
const Label = "meshtrial.dev/generated"

const labelValue = "scope"

// What becomes of a Sidecar.
const (
	Create = "create"
	Change = "change"
	Same   = "none"
	Delete = "delete"
)

// Sidecar is a Sidecar resource: for the mesh in its root namespace, for a
// namespace, or with a selector for the pods of one workload.
type Sidecar struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Selector  map[string]string `json:"workload_selector,omitempty"`
	Hosts     []string          `json:"hosts"`  // of the egress listener for all ports
	Change    string            `json:"change"` // create, change, none or delete
	Reason    ReasonCode        `json:"reason,omitempty"`
	Lost      float64           `json:"lost_ratio,omitempty"` // of ReasonException: what it saves and would be lost without it
	// Workloads are those that it holds for.
	Workloads []string `json:"workloads,omitempty"`

	Labels      map[string]string `json:"-"`
	Annotations map[string]string `json:"-"`

	rest  map[string]any // what its spec says beside workloadSelector and egress
	whole map[string]any // its spec, as it exists
	// some says that it has a workload selector, be it one of all pods.
	some    bool
	created time.Time
	mesh    bool // the default of the mesh
	fixed   bool // it has egress listeners of its own, so it cannot be replaced
}

// ReasonCode names why a Sidecar is what it is.
type ReasonCode string

// The reasons for Sidecars.
const (
	ReasonMesh       ReasonCode = "mesh_default"
	ReasonNeeded     ReasonCode = "needed"
	ReasonNarrower   ReasonCode = "narrower_than_default"
	ReasonException  ReasonCode = "exception"
	ReasonUnseen     ReasonCode = "unseen_workload"
	ReasonUnseenSome ReasonCode = "unseen_some"
	ReasonUnseenAll  ReasonCode = "unseen_all"
	ReasonUseless    ReasonCode = "of_no_use"
	ReasonTheirs     ReasonCode = "not_generated"
)

// String is NAMESPACE/NAME.
func (s Sidecar) String() string { return s.Namespace + "/" + s.Name }

func (s Sidecar) generated() bool { return s.Labels[Label] == labelValue }

// existingSidecar reads the spec of a Sidecar in the mesh.
func existingSidecar(namespace, name string, raw json.RawMessage) (Sidecar, error) {
	s := Sidecar{Namespace: namespace, Name: name}
	var spec struct {
		WorkloadSelector *struct {
			Labels map[string]string `json:"labels"`
		} `json:"workloadSelector"`
		Egress []map[string]json.RawMessage `json:"egress"`
	}
	if err := field(raw, "spec", &spec); err != nil {
		return s, err
	}
	if err := field(raw, "spec", &s.whole); err != nil {
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
		if err := field(listener["hosts"], fmt.Sprintf("spec.egress[%d].hosts", i), &hosts); err != nil {
			return s, err
		}
		for j, host := range hosts {
			if strings.Count(host, "/") != 1 {
				return s, fmt.Errorf("spec.egress[%d].hosts[%d]: %.100q is not NAMESPACE/HOST", i, j, host)
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

// admits reports whether egress hosts let in a host, for proxies of a namespace
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

// subset reports whether all that a host stands for is within another, which may
// be a wildcard (pkg/config/host, Name.SubsetOf).
func subset(host, of string) bool {
	if host == of || of == "*" {
		return true
	}
	suffix, wild := strings.CutPrefix(of, "*")
	return wild && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
}

// selective reports whether a Sidecar has a workload selector. istiod looks for these first; one in
// the root namespace is not the mesh's default.
func (s Sidecar) selective() bool { return s.some || len(s.Selector) > 0 }

// egressProxy returns the host of a Sidecar's outboundTrafficPolicy.egressProxy.
func egressProxy(spec map[string]any) string {
	policy, _ := spec["outboundTrafficPolicy"].(map[string]any)
	proxy, _ := policy["egressProxy"].(map[string]any)
	host, _ := proxy["host"].(string)
	return host
}

// older reports whether istiod prefers a Sidecar to another: the older one; one that does not exist
// yet is the youngest.
func (s Sidecar) older(than Sidecar) bool {
	switch {
	case s.created.Equal(than.created):
		return s.Name < than.Name
	case s.created.IsZero() || than.created.IsZero():
		return than.created.IsZero()
	}
	return s.created.Before(than.created)
}

// selects reports whether a Sidecar's selector, or its lack, matches pods with these labels.
func (s Sidecar) selects(labels map[string]string) bool {
	return within(s.Selector, labels)
}

// effective returns the Sidecar that governs pods with these labels in a namespace, as istiod
// chooses: by selector, then of the namespace, then of the root namespace. Without one, a Sidecar
// that lets in everything.
func effective(all []Sidecar, root, namespace string, labels map[string]string) Sidecar {
	var selecting, own, mesh *Sidecar
	first := func(at **Sidecar, s *Sidecar) {
		if *at == nil || s.older(**at) {
			*at = s
		}
	}
	for i := range all {
		switch s := &all[i]; {
		case s.Namespace == namespace && s.selective():
			if s.selects(labels) {
				first(&selecting, s)
			}
		case s.Namespace == namespace:
			first(&own, s)
		case s.Namespace == root && !s.selective():
			first(&mesh, s)
		}
	}
	switch {
	case selecting != nil:
		return *selecting
	case own != nil:
		return *own
	case mesh != nil:
		return *mesh
	}
	return Sidecar{Hosts: []string{"*/*"}}
}

// object is the manifest of a Sidecar with a spec.
func (s Sidecar) object(spec map[string]any) map[string]any {
	metadata := map[string]any{"name": s.Name, "namespace": s.Namespace}
	if len(s.Labels) > 0 {
		metadata["labels"] = s.Labels
	}
	if len(s.Annotations) > 0 {
		metadata["annotations"] = s.Annotations
	}
	return map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": metadata, "spec": spec}
}

// spec is the generated spec.
func (s Sidecar) spec() map[string]any {
	spec := maps.Clone(s.rest)
	if spec == nil {
		spec = map[string]any{}
	}
	if len(s.Selector) > 0 {
		spec["workloadSelector"] = map[string]any{"labels": s.Selector}
	}
	spec["egress"] = []any{map[string]any{"hosts": s.Hosts}}
	return spec
}

// YAML writes the resource.
func (s Sidecar) YAML() string {
	text, err := yaml.Marshal(s.object(s.spec()))
	if err != nil { // it is made of texts, lists and maps
		panic(err)
	}
	return string(text)
}

// before is the resource as it exists, "" if it does not.
func (s Sidecar) before() string {
	if s.whole == nil {
		return ""
	}
	text, err := yaml.Marshal(s.object(s.whole))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Manifests writes the Sidecars to create or change, each with its reason, and names those to
// delete, in the order in which to apply them.
func (r Result) Manifests() string {
	var b strings.Builder
	for _, s := range r.Steps() {
		if s.After != nil {
			fmt.Fprintf(&b, "---\n# %s\n%s", s.Because(), s.YAML())
		} else {
			fmt.Fprintf(&b, "# %s; remove it: kubectl delete sidecars.networking.istio.io -n %s %s\n", s.Because(), s.Namespace, s.Name)
		}
	}
	if b.Len() == 0 {
		return "# Nothing is to be changed.\n"
	}
	return b.String()
}

// Diff is what applying the manifests changes, in unified form.
func (r Result) Diff() string {
	var b strings.Builder
	for _, s := range r.Sidecars {
		before, after := "", ""
		if old, found := r.existing[s.String()]; found {
			before = old.before()
		}
		if s.Change != Delete {
			after = s.YAML()
		}
		if s.Change == Same || before == after {
			continue
		}
		from, to := "a/"+s.String(), "b/"+s.String()
		if before == "" {
			from = "/dev/null"
		}
		if after == "" {
			to = "/dev/null"
		}
		b.Write(diff.Diff(from, []byte(before), to, []byte(after)))
	}
	return b.String()
}

// Step is one change of an object: from what to what.
type Step struct {
	Sidecar
	// Before and After are the whole object, nil where there is none.
	Before, After map[string]any
}

// plain converts an object to JSON types, as clients of the API require.
func plain(object map[string]any) map[string]any {
	text, err := json.Marshal(object)
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil { // it is made of texts, numbers, lists and maps
		panic(err)
	}
	return out
}

// Steps returns the changes in an order in which no workload lacks what it needs in between:
// Sidecars of workloads, then of namespaces, then the mesh's, then deletions.
func (r Result) Steps() []Step {
	var out []Step
	for _, s := range r.Sidecars {
		step := Step{Sidecar: s}
		if old, found := r.existing[s.String()]; found {
			step.Before = plain(old.object(old.whole))
		}
		switch s.Change {
		case Create, Change:
			step.After = plain(s.object(s.spec()))
		case Delete:
		default:
			continue
		}
		out = append(out, step)
	}
	rank := func(s Step) int {
		switch {
		case s.Change == Delete:
			return 3
		case s.mesh:
			return 2
		case !s.selective():
			return 1
		}
		return 0
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
	})
	return out
}
