// Package rights has one table of the rights in a cluster that each feature of meshtrial
// needs: what each right is for, what is lost without it, and which plans need it. Rights
// that only one mesh needs come from its package.
//
// A run's preflight checks these rights, `meshtrial cluster check` prints them and writes
// manifests, and docs/cluster.md lists them. A test on the lab compares the table with the
// audit log of an API server.
package rights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/study"
)

// Where is the scope of a right.
type Where string

// Scopes of rights.
const (
	// Everywhere means every namespace, or objects without one.
	Everywhere Where = "everywhere"
	// InRun means the run's own namespace. Its name is not known beforehand, so the right
	// must be granted everywhere, unless users get rights in the namespaces they create.
	InRun Where = "run's namespace"
	// InMesh means the namespace of the mesh's control plane.
	InMesh Where = "mesh's namespace"
	// InSystem means Kubernetes' own namespace.
	InSystem Where = "kube-system"
	// InJournal means the namespace of the cluster's Lease and journal.
	InJournal Where = "journal's namespace"
	// InNamed means a namespace that the user names.
	InNamed Where = "namespace named"
	// OfURL means a path of the API server that is not an object.
	OfURL Where = "path"
)

// Right is one line of the table: verbs on a resource.
type Right struct {
	Verbs       []string `json:"verbs"`
	Group       string   `json:"group"` // "" means the core group
	Resource    string   `json:"resource,omitempty"`
	Subresource string   `json:"subresource,omitempty"`
	URL         string   `json:"url,omitempty"` // of OfURL
	Where       Where    `json:"where"`
	// Namespace is the namespace in which the right must hold; "" for Everywhere, and
	// until [Place] has filled it in.
	Namespace string `json:"namespace,omitempty"`
	// Version and Kind describe an object that a study names. Resource is then empty until
	// the API server has resolved it.
	Version string `json:"version,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Why     string `json:"why"`
	// Without says what is lost if the right is refused; "" means that a run does not
	// start.
	Without string `json:"without,omitempty"`

	mesh string // the only mesh that needs it; "" means all
}

// Optional reports whether a run can proceed without the right.
func (r *Right) Optional() bool { return r.Without != "" }

// Name returns the resource as kubectl writes it, or the path.
func (r *Right) Name() string {
	name := r.Resource
	switch {
	case r.Where == OfURL:
		return r.URL
	case name == "":
		name = r.Kind
	}
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return name
}

// Feature is a function of meshtrial with the rights it needs.
type Feature struct {
	Name string `json:"feature"`
	Doc  string `json:"doc"`
	// Privileged says what its pods may do on nodes beyond an ordinary pod; "" means
	// nothing.
	Privileged string `json:"privileged,omitempty"`
	// Without says what is lost without the whole feature; "" if the study consists of
	// nothing else.
	Without string  `json:"without,omitempty"`
	Rights  []Right `json:"rights"`
}

// rights returns the rights of a row.
func (r *Row) rights() []Right {
	one := Right{Verbs: strings.Fields(r.Verbs), Where: r.Where, Why: r.Why, Without: r.Without, mesh: r.mesh}
	if r.Where == OfURL {
		one.URL = r.Name
		return []Right{one}
	}
	var out []Right
	for name := range strings.FieldsSeq(r.Name) {
		name, one.Subresource, _ = strings.Cut(name, "/")
		one.Resource, one.Group, _ = strings.Cut(name, ".")
		out = append(out, one)
	}
	return out
}

// with returns the feature with the needed rows.
func (f *feature) with(needed func(*Row) bool) Feature {
	out := Feature{Name: f.Name, Doc: f.Doc, Privileged: f.Privileged, Without: f.Without}
	for _, rows := range [][]Row{f.also, f.rows} {
		for i := range rows {
			if needed(&rows[i]) {
				out.Rights = append(out.Rights, rows[i].rights()...)
			}
		}
	}
	return out
}

func all(*Row) bool { return true }

// Features returns the whole table in the order of the documentation, except rights for
// the objects that the steps of a study name.
func Features() []Feature {
	var out []Feature
	for i := range table {
		out = append(out, table[i].with(all))
	}
	return out
}

// Named returns features by name.
func Named(names ...string) ([]Feature, error) {
	var out []Feature
	for _, name := range names {
		i := slices.IndexFunc(table, func(f feature) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no feature %q", name)
		}
		out = append(out, table[i].with(all))
	}
	return out, nil
}

// Names returns the names of all features.
func Names() []string {
	var out []string
	for i := range table {
		out = append(out, table[i].Name)
	}
	return out
}

// Of returns exactly the features and rights that a plan's cells and steps need.
func Of(plan *study.Plan) []Feature {
	var out []Feature
	for i := range table {
		if table[i].when == nil || !table[i].when(plan) {
			continue
		}
		f := table[i].with(neededBy(plan))
		if f.Name == ConfigSteps {
			f.Rights = append(f.Rights, stepObjects(plan)...)
		}
		if len(f.Rights) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// OfKubelets is [Of] for a run that reads the nodes' kubelets instead of observers.
func OfKubelets(plan *study.Plan) []Feature {
	return append(slices.DeleteFunc(Of(plan), func(f Feature) bool { return f.Name == Observe }), For(plan, Kubelets)...)
}

// For returns the feature that a flag enables, with the rights that a plan then needs.
func For(plan *study.Plan, name string) []Feature {
	var out []Feature
	for i := range table {
		if table[i].Name == name {
			out = append(out, table[i].with(neededBy(plan)))
		}
	}
	return out
}

func neededBy(plan *study.Plan) func(*Row) bool {
	meshes := Meshes(plan)
	return func(r *Row) bool {
		return (r.mesh == "" || slices.Contains(meshes, r.mesh)) && (r.When == nil || r.When(plan))
	}
}

// Add adds the rights that features need for a mesh. Call it at the start of a program,
// before any other function of this package.
func Add(mesh string, rows map[string][]Row) {
	for name, of := range rows {
		at := slices.IndexFunc(table, func(f feature) bool { return f.Name == name })
		if at < 0 {
			panic(fmt.Sprintf("rights: mesh %s brings rights for feature %q, which does not exist", mesh, name))
		}
		f := &table[at]
		for _, r := range of {
			r.mesh = mesh
			f.rows = append(f.rows, r)
		}
	}
}

// Join merges the features of several plans: each feature once, with the rights of all
// plans.
func Join(all ...[]Feature) []Feature {
	var out []Feature
	for _, features := range all {
		for _, f := range features {
			i := slices.IndexFunc(out, func(o Feature) bool { return o.Name == f.Name })
			if i < 0 {
				f.Rights = slices.Clone(f.Rights)
				out = append(out, f)
				continue
			}
			for k := range f.Rights {
				r := &f.Rights[k]
				if !slices.ContainsFunc(out[i].Rights, func(o Right) bool { return r.same(&o) }) {
					out[i].Rights = append(out[i].Rights, *r)
				}
			}
		}
	}
	return out
}

// same reports whether two rights come from the same row and have the same place.
func (r *Right) same(o *Right) bool {
	return r.Name() == o.Name() && r.Version == o.Version && r.Where == o.Where && r.Namespace == o.Namespace && r.Why == o.Why && slices.Equal(r.Verbs, o.Verbs)
}

// Places holds the namespaces that the table refers to by purpose.
type Places struct {
	// Run is the run's namespace, or a possible name for it.
	Run string
	// Journal holds the cluster's Lease and the journal of changes.
	Journal string
	// Meshes maps meshes to the namespaces of their control planes. Meshes without an
	// entry are not used.
	Meshes map[string]string
	// Named is the namespace that the user names.
	Named string
}

// Place fills in the namespaces. It repeats rights in a mesh's namespace for each mesh
// that needs them.
func Place(features []Feature, at Places) []Feature {
	var out []Feature
	for _, f := range features {
		var placed []Right
		for _, r := range f.Rights {
			placed = append(placed, r.place(at)...)
		}
		if f.Rights = placed; len(placed) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func (r Right) place(at Places) []Right {
	if _, used := at.Meshes[r.mesh]; r.mesh != "" && !used {
		return nil
	}
	switch r.Where {
	case InRun:
		r.Namespace = at.Run
	case InSystem:
		r.Namespace = string(InSystem)
	case InJournal:
		r.Namespace = at.Journal
	case InNamed:
		if r.Namespace == "" {
			r.Namespace = at.Named
		}
	case InMesh:
		var out []Right
		for _, name := range sorted(at.Meshes) {
			if r.mesh == "" || r.mesh == name {
				r.Namespace = at.Meshes[name]
				out = append(out, r)
			}
		}
		return out
	}
	return []Right{r}
}
