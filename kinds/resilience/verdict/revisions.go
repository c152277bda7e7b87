package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// Times of readings other than the names of steps.
const (
	BeforeSteps = "before the steps"
	AfterSteps  = "after the steps"
)

// RevisionLook lists the control planes that every proxy was connected to at one time, by the
// control planes' own lists: sidecars, or an ambient mesh's ztunnels and waypoints.
type RevisionLook struct {
	When string `json:"when"` // the name of a step, BeforeSteps or AfterSteps
	// To is the step's target for the namespace, in its own words, and Revision the revision of
	// that control plane; "" for readings without a step.
	To       string         `json:"to,omitempty"`
	Revision string         `json:"revision,omitempty"`
	AtNS     int64          `json:"at_unix_ns"`
	Sidecars []RevisionSide `json:"sidecars"`
}

// RevisionSide is one proxy.
type RevisionSide struct {
	Pod       string       `json:"pod"`
	Wanted    string       `json:"wanted"` // revision
	Connected []RevisionOf `json:"connected"`
	// Version is that of its image, and WantedVersion that of its control plane, if there are
	// several versions.
	Version       string `json:"version,omitempty"`
	WantedVersion string `json:"wanted_version,omitempty"`
}

// RevisionOf is a control plane that lists a proxy as connected.
type RevisionOf struct {
	Revision string `json:"revision"`
	By       string `json:"by"` // its pod
	// Acknowledged means that the proxy has acknowledged the last push.
	Acknowledged bool `json:"acknowledged"`
}

// Wrong returns an error that names a proxy connected to the wrong control plane or of another
// version, or nil.
func (l RevisionLook) Wrong() error {
	for _, s := range l.Sidecars {
		if len(s.Connected) == 1 && s.Connected[0].Revision == s.Wanted {
			if !s.ofVersion() {
				return fmt.Errorf("the proxy of %s is of version %s, not %s", s.Pod, s.Version, s.WantedVersion)
			}
			continue
		}
		is := "none"
		if len(s.Connected) > 0 {
			var names []string
			for _, c := range s.Connected {
				names = append(names, c.Revision)
			}
			is = strings.Join(names, " and ")
		}
		return fmt.Errorf("the proxy of %s is connected to revision %s, not only to %s", s.Pod, is, s.Wanted)
	}
	return nil
}

// ofVersion reports whether the proxy's image is of its control plane's version: has the same tag,
// or one that adds to it, as for another Envoy. Images that are named by digest cannot be compared.
func (s RevisionSide) ofVersion() bool {
	more, ok := strings.CutPrefix(s.Version, s.WantedVersion)
	byDigest := strings.Contains(s.Version, ":") || strings.Contains(s.WantedVersion, ":")
	return s.WantedVersion == "" || byDigest || ok && (more == "" || more[0] == '-')
}

// of returns why a reading does not belong to the move in an event, or nil.
func (l RevisionLook) of(e record.Event) error {
	if e.Object != (&fault.Move{To: l.To}).Target() {
		return fmt.Errorf("checked for a move to %s, but the step was: %s", l.To, e.Object)
	}
	if !slices.ContainsFunc(l.Sidecars, func(s RevisionSide) bool { return s.Wanted == l.Revision }) {
		return fmt.Errorf("no proxy should be on revision %s, to which the step moved the namespace", l.Revision)
	}
	return nil
}

// Acknowledged reports whether every proxy has acknowledged the last push.
func (l RevisionLook) Acknowledged() bool {
	return !slices.ContainsFunc(l.Sidecars, func(s RevisionSide) bool {
		return slices.ContainsFunc(s.Connected, func(c RevisionOf) bool { return !c.Acknowledged })
	})
}

// check finds what a reading lacks.
func (l RevisionLook) check(at string) error {
	switch {
	case l.When == "":
		return fmt.Errorf("%s.when: nothing", at)
	case len(l.Sidecars) == 0:
		return fmt.Errorf("%s.sidecars: nothing was checked", at)
	}
	for i, s := range l.Sidecars {
		if s.Pod == "" || s.Wanted == "" {
			return fmt.Errorf("%s.sidecars[%d]: no pod, or no expected revision", at, i)
		}
	}
	return nil
}

// checkRevisions checks that every proxy was connected to its revision at every reading: before
// the steps, after each move, and after all steps.
func checkRevisions(s *verdict.Sheet, looks []RevisionLook, events []record.Event) {
	whens := []string{BeforeSteps}
	var missing, wrong []string
	for _, e := range events {
		if e.Op != fault.MoveKind {
			continue
		}
		whens = append(whens, e.Step)
		for _, l := range looks {
			if l.When == e.Step {
				if err := l.of(e); err != nil {
					wrong = append(wrong, l.When+": "+err.Error())
				}
			}
		}
	}
	if len(whens) == 1 && len(looks) == 0 {
		return
	}
	for _, when := range append(whens, AfterSteps) {
		if !slices.ContainsFunc(looks, func(l RevisionLook) bool { return l.When == when }) {
			missing = append(missing, when)
		}
	}
	for _, l := range looks {
		if err := l.Wrong(); err != nil {
			wrong = append(wrong, l.When+": "+err.Error())
		}
	}
	if len(missing) > 0 {
		wrong = append(wrong, "the proxies' revisions were not checked: "+strings.Join(missing, ", "))
	}
	checkNone(s, "revisions", strings.Join(wrong, "; "), fmt.Sprintf("every proxy was connected only to its expected revision, in %s", words.Plural(len(looks), "check")))
}
