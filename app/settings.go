package app

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/record"
)

// SettingsFile is where a run directory has the setting that a tuning recommends.
const SettingsFile = "recommended.yaml"

const (
	settingsHead = "# The setting that the search recommends: where the report's steps end.%s Go there by\n" +
		"# these steps; at their end apply it as one file:\n" +
		"#   kubectl apply --server-side --field-manager=tuning -f " + SettingsFile + "\n" +
		"# (with --force-conflicts where the installation sets the same fields). What an earlier such\n" +
		"# file set and this one does not, that command takes out again.\n"
	valuesHead = "# To be merged into the installation's values (helm: meshConfig of the chart istiod;\n# istioctl: spec.meshConfig). kubectl does not set it.\n"
	placesHead = "# For each namespace and workload that it concerns; they are left to name:\n"
)

// settingsOf is the file of a recommended setting: manifests as kubectl applies them,
// each object once, since of several documents of one object the last takes out what
// those before it set. What is to be merged into values, or to be completed, stands in
// comments. A tuning that recommends nothing says so, in place of what it said earlier; ""
// for other runs.
func settingsOf(t *record.Tuning) string {
	switch {
	case t == nil:
		return ""
	case t.Refuted() || len(t.Recommended) == 0:
		return "# Nothing is recommended; the report says why.\n"
	}
	var deployment, values piece
	var others []string
	open := "" // what somebody has to complete before it can be applied
	for _, s := range t.Settings {
		note := fmt.Sprintf("# %s: %s, now %s\n", s.Lever, s.To, s.From)
		var object map[string]any
		if err := yaml.Unmarshal([]byte(s.YAML), &object); err != nil || len(object) == 0 {
			note = fmt.Sprintf("# %s: %s, now %s; has no manifest: %s\n", s.Lever, s.To, s.From, s.Do)
			others = append(others, note+s.YAML)
			continue
		}
		switch metadata, _ := object["metadata"].(map[string]any); {
		case object["kind"] == nil:
			values.add(note, object)
		case object["kind"] == "Deployment":
			deployment.add(note, object)
		case metadata["namespace"] == advice.AnyNamespace:
			open += note + placesHead + commented(s.YAML)
		default:
			others = append(others, note+s.YAML)
		}
	}
	unconfirmed := ""
	if t.Verdict == "" {
		unconfirmed = " No comparison has confirmed it yet."
	}
	head := fmt.Sprintf(settingsHead, unconfirmed)
	if v := values.text(); v != "" {
		head += valuesHead + commented(v)
	}
	head += open
	if d := deployment.text(); d != "" {
		others = append([]string{d}, others...)
	}
	return head + strings.Join(others, "---\n")
}

// commented is a text as comments of YAML.
func commented(text string) string {
	return "#   " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n#   ") + "\n"
}

// piece is what several settings make of one object.
type piece struct {
	notes  string
	object map[string]any
}

func (p *piece) add(note string, object map[string]any) {
	p.notes += note
	if p.object == nil {
		p.object = object
		return
	}
	p.object, _ = merged(p.object, object).(map[string]any)
}

func (p *piece) text() string {
	if p.object == nil {
		return ""
	}
	out, err := yaml.Marshal(p.object)
	if err != nil { // what was YAML is
		panic(err)
	}
	return p.notes + string(out)
}

// merged has what both documents set: of mappings all fields, of lists all elements,
// those of one name together.
func merged(a, b any) any {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return b
		}
		for k, v := range y {
			if had, both := x[k]; both {
				v = merged(had, v)
			}
			x[k] = v
		}
		return x
	case []any:
		y, ok := b.([]any)
		if !ok {
			return b
		}
		for _, v := range y {
			at := slices.IndexFunc(x, func(had any) bool { return nameOf(had) != "" && nameOf(had) == nameOf(v) })
			if at < 0 {
				x = append(x, v)
				continue
			}
			x[at] = merged(x[at], v)
		}
		return x
	}
	return b
}

func nameOf(v any) string {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	return name
}
