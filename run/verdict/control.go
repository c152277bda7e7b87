package verdict

import (
	"slices"
	"strings"
)

// ControlPlane has the serving replicas of a mesh's control plane at the start and the end of
// a trial, by name and number of restarts.
type ControlPlane struct {
	Before []string `json:"before"`
	After  []string `json:"after"`
}

// ControlLived is the check of [Sheet.CheckControlPlane].
const ControlLived = "control-plane-lived"

// CheckControlPlane checks that a trial had the same control plane throughout. Autoscalers,
// upgrades and evictions change it: proxies whose replica ends connect to another one, and
// receive their complete configuration again. It adds no check for trials without a control
// plane.
func (s *Sheet) CheckControlPlane(c *ControlPlane) {
	if c == nil || len(c.Before)+len(c.After) == 0 {
		return
	}
	var changed []string
	differ := func(from, to []string, how string) {
		for _, r := range from {
			if !slices.Contains(to, r) {
				changed = append(changed, r+" "+how)
			}
		}
	}
	differ(c.Before, c.After, "ended or got unready")
	differ(c.After, c.Before, "came")
	what := "the same"
	if len(changed) > 0 {
		what = strings.Join(changed, ", ")
	}
	s.Check(ControlLived, len(changed) == 0, "replicas of the mesh's control plane from the trial's start to its end: %s", what)
}
