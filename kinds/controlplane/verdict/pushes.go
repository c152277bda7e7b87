package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
)

// pushes compares what the simulated sidecars received with what istiod says it pushed: counts by
// two programs, type by type. Nothing can be received that was not pushed. What was pushed and not
// received was lost or went to real sidecars, the study's or others', whose receipts are not
// counted. pushes makes no check if real sidecars are so many that they may have received
// everything missing, if istiod restarted, if streams broke, if changes never arrived, or if
// sidecars misbehave on purpose.
func (r *ruling) pushes() {
	c, simulated, real := r.trial.Control, r.seen.Audience.Simulated, r.seen.Audience.Real()+r.seen.Audience.Unwatched+r.others()
	if simulated == 0 || len(c.Istiod) == 0 || !Lived(r.seen.Before, r.seen.After) || len(c.Reconnects) > 0 || r.sum.missed > 0 || !r.seen.Asked.good() {
		return
	}
	if r.limits.Of(pushesReal)*float64(real) >= float64(simulated) {
		return // the real ones may have received everything due to the simulated ones
	}
	var said []string
	ok := true
	for _, name := range controlplane.XDSTypes() {
		pushed, counted := c.Istiod[`pilot_xds_pushes{type="`+name+`"}`]
		received := c.Wire[name].Responses
		if received == 0 && (!counted || real > 0) { // the real ones may have received all of it
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

// others returns the number of proxies connected to istiod, by its own count, that do not belong to
// the study. It is the larger number of the two edges of the window, since pushes may have gone to
// that many.
func (r *ruling) others() int {
	before, after := r.othersAtEdges()
	return max(before, after)
}

// othersAtEdges returns those numbers at the start and end of the window. If istiod did not count
// at the start, the number at the end applies to both.
func (r *ruling) othersAtEdges() (before, after int) {
	ours, connected := len(r.seen.Audience.Proxies)+r.seen.Audience.Unwatched, 0
	for series, value := range r.trial.Control.IstiodGauges {
		if strings.HasPrefix(series, "pilot_xds{") { // by proxy version
			connected += int(value)
		}
	}
	after = max(0, connected-ours)
	if n := r.trial.Control.ConnectedBefore; n != nil {
		return max(0, *n-ours), after
	}
	return after, after
}

// pushesFit reports whether a number of pushes is consistent with the number received by simulated
// sidecars.
func (r *ruling) pushesFit(pushed float64, received int64, simulated, real int) bool {
	edge := math.Max(r.limits.Of(pushesEdge), r.limits.Of(pushesEdgeShare)*pushed)
	missing := pushed - float64(received)
	most := edge + r.limits.Of(pushesReal)*float64(real)*math.Max(float64(received)/float64(simulated), 1)
	return missing >= -edge && missing <= most
}
