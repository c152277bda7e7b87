package study

import (
	"strings"
	"testing"
)

const resilientFile = `graph: {services: {front: {}}}
load: {to: front}
timeline: {duration: 10s}
`

// TestKindIsDecidedOnce: a file names its kind, or its sections imply it, and the marshaled form
// says so.
func TestKindIsDecidedOnce(t *testing.T) {
	head := "name: a\nquestion: b\n"
	for text, want := range map[string]Kind{
		"":                                   DataPlane,
		"kind: data-plane\n":                 DataPlane,
		"control: {}\n":                      ControlPlane,
		"kind: control-plane\n":              ControlPlane,
		"kind: control-plane\ncontrol: {}\n": ControlPlane,
		resilientFile:                        "resilience",
		"kind: resilience\n" + resilientFile: "resilience",
	} {
		s := parseOK(t, head+text)
		if s.Kind != want {
			t.Errorf("%q is a study of kind %s, want %s", text, s.Kind, want)
		}
		written := string(s.Marshal())
		if !strings.Contains(written, "\nkind: "+string(want)+"\n") {
			t.Errorf("%q is written without its kind:\n%s", text, written)
		}
		if again := parseOK(t, written); again.Kind != want {
			t.Errorf("%q becomes %s when it is read again", text, again.Kind)
		}
	}
}

func TestKindThatIsNot(t *testing.T) {
	head := "name: a\nquestion: b\n"
	for text, want := range map[string]string{
		"kind: everything\n":                              `x.yaml:3:7: unknown value "everything"`,
		"kind: data-plane\ncontrol: {}\n":                 "section control is for studies of the control plane, but this is a study of the data plane",
		"kind: control-plane\n" + resilientFile:           "section timeline is for studies of resilience",
		"kind: resilience\n":                              "a study of resilience needs a timeline",
		"control: {}\n" + resilientFile:                   "section timeline is for studies of resilience",
		"kind: control-plane\nsettings: {sidecars: none}": `"sidecars" is for studies of the data plane`,
	} {
		answered(t, head+text, nil, "", want)
	}
}
