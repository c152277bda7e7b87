package trial

import (
	"sort"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// loadSpec returns the generator's load in a cell. The schedule is long enough for the longest
// warm-up; the runner stops it after the window.
//
// All trials of a block have the same seed, and Poisson arrivals repeat after the length of a
// window. So the windows of a block's cells have the same arrivals, whenever their warm-ups end,
// and the effect of arrivals on latency cancels in differences within the block (common random
// numbers: Law, "Simulation Modeling and Analysis", chapter 11). Other blocks have other arrivals.
func loadSpec(s *study.Study, cell record.Cell, url string, seed uint64) (load.Spec, error) {
	levels, err := dataplane.LevelsOf(cell)
	if err != nil {
		return load.Spec{}, err
	}
	window, interval := dataplane.Of(s).Window, dataplane.Of(s).Interval
	spec := load.DefaultSpec(url)
	spec.Protocol = levels.Protocol
	spec.Method = s.Load.Method
	spec.PayloadBytes = int(levels.PayloadBytes)
	spec.Connections = levels.Connections
	spec.KeepAlive = levels.KeepAlive
	spec.Seed = seed
	spec.Rate = levels.Rate
	if !spec.Rate.IsMax() {
		spec.Arrival = levels.Arrival
		if spec.Arrival == load.Poisson {
			spec.RepeatS = window.Seconds()
		}
	}
	if !protocol.Of(levels.Protocol).Methods {
		spec.Method = ""
	}
	spec.IntervalS = interval.Seconds()
	spec.DurationS = (s.Warmup.Max + window + spare(interval)).Seconds()
	spec.TimeoutS = s.Load.Timeout.Seconds()
	names := make([]string, 0, len(s.Load.Headers))
	for name := range s.Load.Headers {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		spec.Headers = append(spec.Headers, load.Header{Name: name, Value: s.Load.Headers[name]})
	}
	if s.Load.TLS {
		// The worker creates its own certificate at startup.
		spec.TLS = &load.TLS{InsecureSkipVerify: true}
	}
	return spec, spec.Validate()
}
