package stages

import (
	"fmt"
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Two pairs that are entirely wrong, in opposite directions, cancel in the mean and are counted.
func TestErrorsThatCancelAreCounted(t *testing.T) {
	s := truth{watch: 5 * ms, debounce: 100 * ms, context: ms, generate: 60 * ms, ack: ms}
	var istiod istiodAt
	var names []string
	var all []int32
	for p := range 10 {
		names, all = append(names, fmt.Sprintf("p%d.a", p)), append(all, int32(p))
	}
	events := []record.Event{istiod.change(epoch, s, all, names, "eds"), istiod.change(epoch+1000*ms, s, all, names, "eds")}
	rises := map[string]float64{timeQueue + "_count": 20, timeQueue + "_sum": 0, timeContext + "_count": 2, timeContext + "_sum": 0.002,
		series(timePush+"_count", "eds"): 20, series(timePush+"_sum", "eds"): 1.2}
	log := []observe.IstiodLines{istiod.log(t)}
	staged := func() Waterfall {
		return Make(Input{Events: events, Proxies: names, Logs: log, Rises: rises})
	}
	if w := staged(); w.Unexplained == nil || *w.Unexplained != (record.Unexplained{Pairs: 20, LargestUS: w.Unexplained.LargestUS}) || math.Abs(w.Unexplained.LargestUS) > 5 {
		t.Fatalf("nothing is wrong: %+v, %+v", w, w.Unexplained)
	}
	for i, off := range []int64{40_000, -40_500} {
		events[i].Seen.ReceivedUS[3+i] += off
		events[i].Seen.AckedUS[3+i] += off
	}
	w := staged()
	if math.Abs(w.ResidualUS) > 50 {
		t.Errorf("the mean shows it: %+v", w)
	}
	if u := w.Unexplained; u.Pairs != 20 || u.Beyond != 2 || u.Unlogged != 2 || math.Abs(u.LargestUS+40_500) > 5 {
		t.Errorf("%+v", u)
	}
}
