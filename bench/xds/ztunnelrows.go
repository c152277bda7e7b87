package main

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/stat"
)

// turn is what istiod spent on the changes of one.
type turn struct {
	cpu           float64            // seconds, less what it uses anyway
	pushes, bytes map[string]float64 // by type
}

// spent is what istiod did between two looks, less what it does anyway.
func spent(idle, before, after observe.Scrape) (one turn, err error) {
	const cpu = "process_cpu_seconds_total"
	anyway, err := before.Since(idle)
	if err != nil {
		return one, err
	}
	rises, err := after.Since(before)
	if err != nil {
		return one, err
	}
	one = turn{cpu: rises[cpu] - anyway[cpu]*after.At.Sub(before.At).Seconds()/before.At.Sub(idle.At).Seconds(), pushes: map[string]float64{}, bytes: map[string]float64{}}
	for _, kind := range []string{wire.AddressType, wire.AuthorizationType} {
		name := wire.ShortName(kind)
		one.pushes[name] = rises[`pilot_xds_pushes{type="`+name+`"}`]
		one.bytes[name] = rises[`pilot_xds_config_size_bytes_sum{type="`+kind+`"}`]
	}
	return one, nil
}

// rows says by how much istiod's CPU differs, as a ratio with its interval, and its pushes and
// bytes: of the ztunnels alone, since the lab's own is there in every turn.
func (s *sideBySide) rows(turns map[string][]turn) []table.Row {
	of := func(who string, number func(turn) float64) (out []float64) {
		for _, one := range turns[who] {
			out = append(out, number(one))
		}
		return out
	}
	cpu := func(one turn) float64 { return one.cpu }
	without, real, simulated := of(nobody, cpu), of(theReal, cpu), of(theirLikes, cpu)
	var all, added []stat.Pair
	for i := range real {
		all = append(all, stat.Pair{Base: real[i], Test: simulated[i]})
		added = append(added, stat.Pair{Base: real[i] - without[i], Test: simulated[i] - without[i]})
	}
	whole, own := stat.RelativeDifference(all, stat.Options{}), stat.RelativeDifference(added, stat.Options{})
	low, high := table.Of("  its 95% interval, from", "ratio", 1+whole.Low), table.Of("  its 95% interval, to", "ratio", 1+whole.High)
	if s.o.processes == s.o.ztunnels { // those of one process answer together, as real ones do not
		low, high = low.AtLeast(1-cpuBand), high.AtMost(1+cpuBand)
	}
	what := fmt.Sprintf("istiod's CPU for %d changes, %d ", turnChanges, s.o.ztunnels)
	out := []table.Row{
		table.Of(what+"real ztunnels", "s", real...),
		table.Of(fmt.Sprintf("%ssimulated ones in %d processes", what, s.o.processes), "s", simulated...),
		table.Of(fmt.Sprintf("istiod's CPU for %d changes, neither", turnChanges), "s", without...),
		table.Of("with simulated ones by that with real ones (geometric mean over blocks)", "ratio", 1+whole.Value),
		low, high,
	}
	if own.Defined() {
		out = append(out, table.Of("what simulated ones add by what real ones add", "ratio", 1+own.Value),
			table.Of("  95% interval of that, from", "ratio", 1+own.Low), table.Of("  95% interval of that, to", "ratio", 1+own.High))
	}
	for _, name := range []string{"wds", "wads"} {
		for _, c := range []struct {
			what   string
			number func(turn) float64
		}{{"pushes", func(one turn) float64 { return one.pushes[name] }}, {"bytes", func(one turn) float64 { return one.bytes[name] }}} {
			anyway := sum(of(nobody, c.number))
			apart := (sum(of(theirLikes, c.number))-anyway)/(sum(of(theReal, c.number))-anyway) - 1
			out = append(out, table.Of(fmt.Sprintf("%s of %s: by how much simulated ones' are not real ones'", c.what, name), "%", 100*math.Abs(apart)).AtMost(100*pushBand))
		}
	}
	return out
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}
