package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
)

// pushes holds what the simulated sidecars received against what istiod
// says that it pushed: two counts by two programs, type by type. Nothing can
// have come that was not pushed; what was pushed and did not come went to real
// sidecars, the study's or others', of which nobody counts what they got, or was lost. It
// says nothing where there are so many real ones that they may have got all of what is
// missing, where istiod began anew, where streams broke, where changes never came, and
// where sidecars misbehave on purpose.
func (r *ruling) pushes() {
	c, simulated, real := r.trial.Control, r.seen.Audience.Simulated, r.seen.Audience.Real()+r.seen.Audience.Unwatched+r.others()
	if simulated == 0 || len(c.Istiod) == 0 || !Lived(r.seen.Before, r.seen.After) || len(c.Reconnects) > 0 || r.sum.missed > 0 || !r.seen.Asked.good() {
		return
	}
	if r.limits.Of(pushesReal)*float64(real) >= float64(simulated) {
		return // all that the simulated ones should have got would be within what these may have
	}
	var said []string
	ok := true
	for _, name := range controlplane.XDSTypes() {
		pushed, counted := c.Istiod[`pilot_xds_pushes{type="`+name+`"}`]
		received := c.Wire[name].Responses
		if received == 0 && (!counted || real > 0) { // all of it may have been for the real ones
			continue
		}
		fits := r.pushesFit(pushed, received, simulated, real)
		ok = ok && fits
		text := fmt.Sprintf("%s %.0f pushed, %d received", name, pushed, received)
		if !fits {
			text += " (!)"
		}
		said = append(said, text)
	}
	if len(said) == 0 {
		return
	}
	r.Check("pushes", ok, "by istiod's own count and that of %d simulated sidecars beside %d real: %s", simulated, real, strings.Join(said, ", "))
}

// others is how many proxies that are none of the study's were connected to istiod,
// by its own count: the larger number of the window's two edges, since what was
// pushed may have gone to so many.
func (r *ruling) others() int {
	before, after := r.othersAtEdges()
	return max(before, after)
}

// othersAtEdges are those at the window's beginning and at its end. Where istiod did
// not count at the beginning, they were as many as at the end.
func (r *ruling) othersAtEdges() (before, after int) {
	ours, connected := len(r.seen.Audience.Proxies)+r.seen.Audience.Unwatched, 0
	for series, value := range r.trial.Control.IstiodGauges {
		if strings.HasPrefix(series, "pilot_xds{") { // by version of the proxies
			connected += int(value)
		}
	}
	after = max(0, connected-ours)
	if n := r.trial.Control.ConnectedBefore; n != nil {
		return max(0, *n-ours), after
	}
	return after, after
}

// pushesFit tells whether a number of pushes and what simulated sidecars
// received of them go together.
func (r *ruling) pushesFit(pushed float64, received int64, simulated, real int) bool {
	edge := math.Max(r.limits.Of(pushesEdge), r.limits.Of(pushesEdgeShare)*pushed)
	missing := pushed - float64(received)
	most := edge + r.limits.Of(pushesReal)*float64(real)*math.Max(float64(received)/float64(simulated), 1)
	return missing >= -edge && missing <= most
}
