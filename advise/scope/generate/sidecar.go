package generate

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Label marks Sidecars that were generated; a later one may take their place.
const Label = "meshtrial.dev/generated"

// labelValue is what it has.
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
	Reason    string            `json:"reason,omitempty"`
	// Workloads are those that it holds for.
	Workloads []string `json:"workloads,omitempty"`

	Labels      map[string]string `json:"-"`
	Annotations map[string]string `json:"-"`

	rest  map[string]any // what its spec says beside workloadSelector and egress
	whole map[string]any // its spec, as it exists
	// some says that it has a workload selector, be it one of all pods.
	some    bool
	created time.Time
	mesh    bool   // the default of the mesh
	fixed   string // why it cannot be written anew
}

// String names it.
func (s Sidecar) String() string { return s.Namespace + "/" + s.Name }

func (s Sidecar) generated() bool { return s.Labels[Label] == labelValue }

// existingSidecar reads the spec of one that is there.
func existingSidecar(namespace, name string, spec map[string]any) (Sidecar, error) {
	s := Sidecar{Namespace: namespace, Name: name, rest: map[string]any{}, whole: spec}
	wrong := func(field string) (Sidecar, error) {
		return s, fmt.Errorf("spec.%s: not what belongs there", field)
	}
	for key, value := range spec {
		switch key {
		case "workloadSelector":
			if value == nil {
				continue
			}
			s.some = true
			selector, is := value.(map[string]any)
			labels, also := selector["labels"].(map[string]any)
			if !is || !also && selector["labels"] != nil {
				return wrong("workloadSelector")
			}
			for label, value := range labels {
				text, is := value.(string)
				if !is {
					return wrong("workloadSelector.labels." + label)
				}
				if s.Selector == nil {
					s.Selector = map[string]string{}
				}
				s.Selector[label] = text
			}
		case "egress":
			listeners, is := value.([]any)
			if !is {
				return wrong(key)
			}
			for i, l := range listeners {
				listener, is := l.(map[string]any)
				if !is {
					return wrong(fmt.Sprintf("egress[%d]", i))
				}
				hosts, is := listener["hosts"].([]any)
				if !is {
					return wrong(fmt.Sprintf("egress[%d].hosts", i))
				}
				for j, h := range hosts {
					host, is := h.(string)
					if !is || strings.Count(host, "/") != 1 {
						return wrong(fmt.Sprintf("egress[%d].hosts[%d]", i, j))
					}
					s.Hosts = append(s.Hosts, host)
				}
				if len(listener) > 1 || len(listeners) > 1 {
					s.fixed = "it has egress listeners with ports, addresses or capture modes of their own"
				}
			}
		default:
			s.rest[key] = value
		}
	}
	if len(s.Hosts) == 0 {
		s.Hosts = []string{"*/*"} // what istiod takes then
	}
	return s, nil
}

// admits says whether egress hosts let in a host, for proxies of a namespace
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

// subset says whether all that a host stands for is within another, which may
// be a wildcard (pkg/config/host, Name.SubsetOf).
func subset(host, of string) bool {
	if host == of || of == "*" {
		return true
	}
	suffix, wild := strings.CutPrefix(of, "*")
	return wild && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
}

// selective says whether it holds for the pods that it selects: those of a
// namespace are looked for first, and one in the root namespace is no mesh
// default.
func (s Sidecar) selective() bool { return s.some || len(s.Selector) > 0 }

// egressProxy is the host of the proxy through which a Sidecar's workloads leave
// the mesh.
func egressProxy(spec map[string]any) string {
	policy, _ := spec["outboundTrafficPolicy"].(map[string]any)
	proxy, _ := policy["egressProxy"].(map[string]any)
	host, _ := proxy["host"].(string)
	return host
}

// older says which of two Sidecars istiod looks at first; one that is yet to be
// made is the youngest.
func (s Sidecar) older(than Sidecar) bool {
	switch {
	case s.created.Equal(than.created):
		return s.Name < than.Name
	case s.created.IsZero() || than.created.IsZero():
		return than.created.IsZero()
	}
	return s.created.Before(than.created)
}

// selects says whether a Sidecar without or with a selector holds for pods of
// these labels.
func (s Sidecar) selects(labels map[string]string) bool {
	return within(s.Selector, labels)
}

// effective is the one of several Sidecars that holds for pods with these
// labels in a namespace, as istiod chooses: by selector, of the namespace, of
// the root namespace. Without one, all there is.
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

// object is the resource as its manifest has it.
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

// spec is what is to be.
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

// Manifests writes the Sidecars that are to be created or changed, each with
// its reason, and names those to delete, in the order in which to apply them.
func (r Result) Manifests() string {
	var b strings.Builder
	for _, s := range r.Steps() {
		if s.After != nil {
			fmt.Fprintf(&b, "---\n# %s\n%s", s.Reason, s.YAML())
		} else {
			fmt.Fprintf(&b, "# %s; remove it: kubectl delete sidecars.networking.istio.io -n %s %s\n", s.Reason, s.Namespace, s.Name)
		}
	}
	if b.Len() == 0 {
		return "# Nothing is to be changed.\n"
	}
	return b.String()
}

// Diff is what applying the manifests changes, in unified form, whole objects.
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
		old, young := splitLines(before), splitLines(after)
		fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ -%s +%s @@\n", from, to, lineRange(old), lineRange(young))
		diffLines(&b, old, young)
	}
	return b.String()
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func lineRange(lines []string) string {
	if len(lines) == 0 {
		return "0,0"
	}
	return fmt.Sprintf("1,%d", len(lines))
}

// diffLines writes the lines of both by their longest common subsequence.
// Objects with very many lines are taken away and written anew, since the
// table grows with the square.
func diffLines(b *strings.Builder, old, young []string) {
	if len(old)*len(young) > 4<<20 {
		for _, line := range old {
			b.WriteString("-" + line + "\n")
		}
		for _, line := range young {
			b.WriteString("+" + line + "\n")
		}
		return
	}
	common := make([][]int32, len(old)+1)
	for i := range common {
		common[i] = make([]int32, len(young)+1)
	}
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(young) - 1; j >= 0; j-- {
			if old[i] == young[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(old) || j < len(young); {
		switch {
		case i < len(old) && j < len(young) && old[i] == young[j]:
			b.WriteString(" " + old[i] + "\n")
			i, j = i+1, j+1
		case i < len(old) && (j == len(young) || common[i+1][j] >= common[i][j+1]):
			b.WriteString("-" + old[i] + "\n")
			i++
		default:
			b.WriteString("+" + young[j] + "\n")
			j++
		}
	}
}
