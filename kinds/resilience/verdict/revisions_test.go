package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/record"
)

// lookAt returns a reading of two sidecars that should be on a revision; the second is connected to
// these.
func lookAt(when, wanted string, connected ...string) RevisionLook {
	of := func(names ...string) (out []RevisionOf) {
		for _, name := range names {
			out = append(out, RevisionOf{Revision: name, By: "istiod-" + name, Acknowledged: true})
		}
		return out
	}
	return RevisionLook{When: when, AtNS: 1, Sidecars: []RevisionSide{{Pod: "bar-1", Wanted: wanted, Connected: of(wanted)}, {Pod: "bar-2", Wanted: wanted, Connected: of(connected...)}}}
}

// movedTo returns a reading after a move to a revision, by which sidecars should be on wanted.
func movedTo(to, wanted string, connected ...string) RevisionLook {
	out := lookAt("moved", wanted, connected...)
	out.To, out.Revision = to, to
	return out
}

// A trial that moves its namespace is valid only if every sidecar was seen where it should be,
// before, between and after.
func TestCheckRevisions(t *testing.T) {
	before, after := lookAt(BeforeSteps, "default", "default"), lookAt(AfterSteps, "canary", "canary")
	moved := []record.Event{{Step: "second", Op: "revision"}, {Step: "moved", Op: fault.MoveKind, Object: (&fault.Move{To: "canary"}).Target()}, {Step: "moved", Op: "end " + fault.MoveKind}}
	for name, tt := range map[string]struct {
		looks  []RevisionLook
		events []record.Event
		says   string // part of the error; "" for none
	}{
		"all as it should be":      {[]RevisionLook{before, movedTo("canary", "canary", "canary"), after}, moved, ""},
		"on the old one":           {[]RevisionLook{before, movedTo("canary", "canary", "default"), after}, moved, "moved: the proxy of bar-2 is connected to revision default, not only to canary"},
		"on both":                  {[]RevisionLook{before, movedTo("canary", "canary", "canary", "default"), after}, moved, "revision canary and default"},
		"on none":                  {[]RevisionLook{before, movedTo("canary", "canary", "canary"), lookAt(AfterSteps, "canary")}, moved, "after the steps: the proxy of bar-2 is connected to revision none"},
		"connected twice to one":   {[]RevisionLook{before, movedTo("canary", "canary", "canary", "canary"), after}, moved, "canary and canary"},
		"what another step did":    {[]RevisionLook{before, movedTo("canary", "default", "default"), after}, moved, "moved: no proxy should be on revision canary"},
		"of another step":          {[]RevisionLook{before, movedTo("other", "other", "other"), after}, moved, "moved: checked for a move to other, but the step was: the namespace to canary"},
		"nobody looked in between": {[]RevisionLook{before, after}, moved, "were not checked: moved"},
		"nobody looked":            {nil, moved, "were not checked: before the steps, moved, after the steps"},
		"nothing moved":            {[]RevisionLook{before, lookAt(AfterSteps, "default", "default")}, moved[:1], ""},
	} {
		t.Run(name, func(t *testing.T) {
			checks := Of(record.Trial{Scenario: &record.Scenario{}}, tt.events, Evidence{Revisions: tt.looks, Collected: &Collected{}}, nil).Checks
			i := slices.IndexFunc(checks, func(c record.Check) bool { return c.Name == "revisions" })
			if i < 0 || checks[i].OK != (tt.says == "") || !strings.Contains(checks[i].Detail, tt.says) {
				t.Errorf("%+v", checks)
			}
		})
	}
	checks := Of(record.Trial{Scenario: &record.Scenario{}}, []record.Event{{Step: "gone", Op: "remove"}}, Evidence{Collected: &Collected{}}, nil).Checks
	if slices.ContainsFunc(checks, func(c record.Check) bool { return c.Name == "revisions" }) {
		t.Errorf("a trial without revisions is judged by them: %+v", checks)
	}
}

// A sidecar of another version than its control plane's has not moved, if there are two versions.
func TestSidecarOfAnotherVersion(t *testing.T) {
	for version, ok := range map[string]bool{"1.31-abc": true, "1.31-abc-envoy1.39.0": true, "1.31-abcd": false, "1.30-def": false, "": false, "sha256:abc": true} {
		look := lookAt("moved", "canary", "canary")
		for i := range look.Sidecars {
			look.Sidecars[i].Version, look.Sidecars[i].WantedVersion = "1.31-abc", "1.31-abc"
		}
		look.Sidecars[1].Version = version
		if err := look.Wrong(); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "proxy of bar-2 is of version "+version+", not 1.31-abc") {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// An incomplete reading is no evidence.
func TestRevisionLookThatLacks(t *testing.T) {
	for says, look := range map[string]RevisionLook{
		"":                {When: "moved", Sidecars: []RevisionSide{{Pod: "bar-1", Wanted: "canary"}}},
		"revisions.when":  {Sidecars: []RevisionSide{{Pod: "bar-1", Wanted: "canary"}}},
		"nothing was":     {When: "moved"},
		"sidecars[0]: no": {When: "moved", Sidecars: []RevisionSide{{Pod: "bar-1"}}},
	} {
		if err := look.check("revisions"); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	if look := lookAt("moved", "canary", "canary"); !look.Acknowledged() {
		t.Error("all have acknowledged")
	}
	look := lookAt("moved", "canary", "canary")
	look.Sidecars[1].Connected[0].Acknowledged = false
	if look.Acknowledged() || look.Wrong() != nil {
		t.Error("one has not acknowledged, and is where it should be")
	}
}
