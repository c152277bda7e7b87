package trial

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/study"
)

// What istiod counts as pushes and what reaches sidecars at the window's edges
// may differ by so much: at least so many, or this share.
const (
	edgePushes     = 2
	edgePushShare  = 0.01
	realPushesMost = 2 // times what a simulated sidecar got, for each real one
)

// judgePushes holds what the simulated sidecars received against what istiod
// says that it pushed: two counts by two programs, type by type. Nothing can
// have come that was not pushed; what was pushed and did not come went to real
// sidecars, of which nobody counts what they got, or was lost. It says nothing
// where istiod began anew, where streams broke, where changes never came, and
// where sidecars misbehave on purpose.
func (t *controlTrial) judgePushes(sum toll, check func(string, bool, string, ...any)) {
	c, clients := t.out.Control, t.levels.Clients
	if len(t.ids) == 0 || len(c.Istiod) == 0 || !t.before.same(t.after) || len(c.Reconnects) > 0 || sum.missed > 0 ||
		clients != study.ClientsGood && clients != study.NotApplicable {
		return
	}
	var said []string
	ok := true
	for _, name := range study.XDSTypes() {
		pushed, counted := c.Istiod[`pilot_xds_pushes{type="`+name+`"}`]
		received := c.Wire[name].Responses
		if !counted && received == 0 {
			continue
		}
		fits := pushesFit(pushed, received, len(t.ids), len(t.c.reals))
		ok = ok && fits
		text := fmt.Sprintf("%s %.0f pushed, %d received", name, pushed, received)
		if !fits {
			text += " (!)"
		}
		said = append(said, text)
	}
	check("pushes", ok, "by istiod's own count and that of %d simulated sidecars beside %d real: %s", len(t.ids), len(t.c.reals), strings.Join(said, ", "))
}

// pushesFit tells whether a number of pushes and what simulated sidecars
// received of them go together.
func pushesFit(pushed float64, received int64, simulated, real int) bool {
	edge := math.Max(edgePushes, edgePushShare*pushed)
	missing := pushed - float64(received)
	most := edge + realPushesMost*float64(real)*math.Max(float64(received)/float64(simulated), 1)
	if received == 0 && real > 0 {
		return true // all of it may have been for the real ones
	}
	return missing >= -edge && missing <= most
}
