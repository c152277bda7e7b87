package fault

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/study"
)

// Config changes objects of the Kubernetes API.
type Config struct {
	usual
	Apply []map[string]any // complete objects, which replace existing ones
	// Pod is a service whose first pod, by name, gives [PodVariable] in Apply its value.
	Pod    string
	Delete []ObjectRef
	// Rejected means that proxies are expected to reject the change: the
	// rejection then proves that the step took effect.
	Rejected bool
}

// PodVariable stands for the name of a pod in the objects of [Config].
const PodVariable = "$(POD)"

// ObjectRef names an object.
type ObjectRef struct{ APIVersion, Kind, Namespace, Name string }

func objectValue(r *ObjectRef) study.Value {
	return study.Object{Name: "an object", Flow: true, Fields: []study.Field{
		{Name: "apiVersion", Required: true, Doc: "As in its manifest.", Value: study.Prose(&r.APIVersion)},
		{Name: "kind", Required: true, Doc: "As in its manifest.", Value: study.Prose(&r.Kind)},
		{Name: "namespace", Doc: "The trial's own if left out.", Value: study.Named(&r.Namespace, study.NamePattern, "namespace", study.NamespaceHint)},
		{Name: "name", Required: true, Doc: "Its name.", Value: study.Prose(&r.Name)},
	}}
}

var configKind = Kind{Name: "config", Doc: "Changes objects of the Kubernetes API.", Long: true, New: func() Action { return &Config{} }}

func (*Config) Kind() string { return configKind.Name }

func (a *Config) Fields() []study.Field {
	return []study.Field{
		{Name: "apply", Doc: "Manifests (YAML, separated by ---). Objects without a namespace go to the trial's own. They are reverted when the step ends.", Value: manifestsValue{&a.Apply}},
		{Name: "pod", Doc: "A service; $(POD) in apply becomes the name of its first pod.", Value: service(&a.Pod, false)},
		{Name: "delete", Doc: "Objects to delete.", Value: study.ListValue[ObjectRef]{To: &a.Delete, Element: objectValue}},
		{Name: "rejected", Doc: "Whether proxies are expected to reject it, which then proves the step.", Value: study.Bool(&a.Rejected).OmitZero()},
	}
}

func (a *Config) Check(step, _ string) []Problem {
	names := slices.ContainsFunc(a.Apply, func(o map[string]any) bool { return strings.Contains(fmt.Sprint(o), PodVariable) })
	switch {
	case names && a.Pod == "":
		return []Problem{{Field: "apply", Hint: "as pod: SERVICE, whose first pod it is", Text: fmt.Sprintf("step %q has %s in its objects, and names no service for it", step, PodVariable)}}
	case a.Pod != "" && !names:
		return []Problem{{Field: "pod", Hint: "leave it out, or use " + PodVariable + " in apply", Text: fmt.Sprintf("step %q names a pod that its objects do not have", step)}}
	case len(a.Apply)+len(a.Delete) > 0:
		return nil
	}
	return []Problem{{Hint: "set apply or delete", Text: fmt.Sprintf("step %q changes no object", step)}}
}

func (a *Config) Target() string { return a.Holds() }

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

// OfMesh reports whether an object configures proxies.
func OfMesh(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	return study.ConfiguresProxies(version)
}

// ConfiguresProxies reports whether the step changes an object that configures
// proxies, or one that they are expected to reject.
func (a *Config) ConfiguresProxies() bool {
	return a.Rejected || slices.ContainsFunc(a.Apply, OfMesh) || slices.ContainsFunc(a.Delete, func(r ObjectRef) bool { return study.ConfiguresProxies(r.APIVersion) })
}

func (a *Config) Perform(p Performer) error { return p.Config(a) }
