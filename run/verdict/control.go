package verdict

import (
	"slices"
	"strings"
)

// ControlPlane is who served as a mesh's control plane when a trial began and when it ended:
// its replicas, by name and number of restarts.
type ControlPlane struct {
	Before []string `json:"before"`
	After  []string `json:"after"`
}

// ControlLived is the name of the check of [Sheet.CheckControlPlane].
const ControlLived = "control-plane-lived"

// CheckControlPlane judges whether a trial had one control plane throughout, which
// autoscalers, upgrades and evictions change: proxies whose replica ends connect to another
// one, and receive all of their configuration again. It says nothing about trials without one.
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
