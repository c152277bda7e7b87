package fault

import (
	"fmt"
	"slices"
	"strings"
)

// Config changes objects of the Kubernetes API.
type Config struct {
	usual
	Apply  []map[string]any // whole objects; those there are replaced
	Delete []ObjectRef
	// Rejected says that proxies are expected to reject it: the proof is then
	// that they did.
	Rejected bool
}

// ObjectRef names an object.
type ObjectRef struct{ APIVersion, Kind, Namespace, Name string }

// Fields are those of its mapping in a study.
func (r *ObjectRef) Fields() []Field {
	return []Field{
		{Name: "apiVersion", Required: true, Doc: "As in its manifest.", Value: Text{To: &r.APIVersion}},
		{Name: "kind", Required: true, Doc: "As in its manifest.", Value: Text{To: &r.Kind}},
		{Name: "namespace", Doc: "The trial's own if left out.", Value: Namespace{&r.Namespace}},
		{Name: "name", Required: true, Doc: "Its name.", Value: Text{To: &r.Name}},
	}
}

var configKind = Kind{Name: "config", Doc: "Changes objects of the Kubernetes API.", Long: true, New: func() Action { return &Config{} }}

// Kind implements [Action].
func (*Config) Kind() string { return configKind.Name }

// Fields implements [Action].
func (a *Config) Fields() []Field {
	return []Field{
		{Name: "apply", Doc: "Manifests (YAML, separated by ---). Objects without a namespace go to the trial's own. When the step ends they are as they were.", Value: Manifests{&a.Apply}},
		{Name: "delete", Doc: "Objects that go.", Value: Objects{&a.Delete}},
		{Name: "rejected", Doc: "Whether proxies are expected to reject it: the proof is then that they did.", Value: Flag{&a.Rejected}},
	}
}

// Check implements [Action].
func (a *Config) Check(step, _ string) []Problem {
	if len(a.Apply)+len(a.Delete) > 0 {
		return nil
	}
	return []Problem{{Hint: "give apply or delete", Text: fmt.Sprintf("step %q changes no object", step)}}
}

// Services implements [Action].
func (*Config) Services() []Reference { return nil }

// Target implements [Action].
func (a *Config) Target() string { return a.Holds() }

// Holds implements [Action].
func (a *Config) Holds() string {
	names := make([]string, 0, len(a.Apply))
	for _, o := range a.Apply {
		names = append(names, objectName(o))
	}
	slices.Sort(names)
	return "objects " + strings.Join(names, ", ")
}

func objectName(o map[string]any) string {
	meta, _ := o["metadata"].(map[string]any)
	parts := []string{fmt.Sprint(o["kind"])}
	for _, key := range []string{"namespace", "name"} {
		if s, _ := meta[key].(string); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "/")
}

// meshGroups are the ends of the API groups that proxies are configured by.
var meshGroups = []string{".istio.io", ".linkerd.io", "gateway.networking.k8s.io"}

// OfMesh says whether proxies are told of such an object.
func OfMesh(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	return ofMesh(version)
}

func ofMesh(version string) bool {
	group, _, _ := strings.Cut(version, "/")
	return slices.ContainsFunc(meshGroups, func(end string) bool { return strings.HasSuffix("."+group, end) || group == end })
}

// ToldToProxies says whether proxies are told of an object that it changes, or are
// expected to reject it.
func (a *Config) ToldToProxies() bool {
	return a.Rejected || slices.ContainsFunc(a.Apply, OfMesh) || slices.ContainsFunc(a.Delete, func(r ObjectRef) bool { return ofMesh(r.APIVersion) })
}

// Expect implements [Action]: what an object does is not known.
func (*Config) Expect(*Standing) bool { return false }

// Perform implements [Action].
func (a *Config) Perform(p Performer) error { return p.Config(a) }
