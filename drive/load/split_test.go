package load

import (
	"math"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

// offsets returns the times of all requests of a Spec, as its loops walk them.
func offsets(spec Spec) []int64 {
	var out []int64
	for i := range spec.Threads {
		s := spec.schedule()
		if spec.Threads > 1 {
			s = &every{schedule: s, n: spec.Threads, skip: i}
		}
		out = append(out, walk(s)...)
	}
	slices.Sort(out)
	return out
}

// However many generators a schedule is split over, together they send it.
func TestSplitMakesTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := DefaultSpec("http://h/")
		spec.DurationS = rapid.Float64Range(0.1, 3).Draw(t, "duration")
		spec.Seed = rapid.Uint64().Draw(t, "seed")
		spec.Connections = rapid.IntRange(1, 40).Draw(t, "connections")
		spec.Threads = rapid.IntRange(1, min(3, spec.Connections)).Draw(t, "threads")
		spec.Rate = rate.Rate(rapid.Float64Range(0.5, 5000).Draw(t, "rate"))
		spec.Arrival = rapid.SampledFrom([]string{Poisson, Uniform, Burst}).Draw(t, "arrival")
		if spec.Arrival == Poisson && rapid.Bool().Draw(t, "repeats") {
			spec.RepeatS = rapid.Float64Range(spec.IntervalS, 2).Draw(t, "period")
		}
		n := rapid.IntRange(1, spec.Connections).Draw(t, "generators")
		hands, err := spec.Split(n)
		must.OK(t, err)
		var got []int64
		connections, planned := 0, int64(0)
		from, to := int64(3e7), int64(9e8)
		for i := range hands {
			must.OK(t, hands[i].Validate())
			got = append(got, offsets(hands[i])...)
			connections += hands[i].Connections
			planned += hands[i].Planned(from, to)
		}
		slices.Sort(got)
		want := offsets(spec)
		if !slices.Equal(got, want) {
			t.Fatalf("%d generators send %d requests, one sends %d; or at other times", n, len(got), len(want))
		}
		within := int64(0)
		for _, at := range want {
			if at >= from && at < to {
				within++
			}
		}
		if connections != spec.Connections || planned != within || spec.Planned(from, to) != within {
			t.Fatalf("%d connections of %d; %d requests planned, %d there", connections, spec.Connections, planned, within)
		}
	})
}

func TestSplitOfTheRest(t *testing.T) {
	spec := DefaultSpec("http://h/")
	spec.Connections, spec.Threads, spec.MaxConnections, spec.RequestID = 5, 2, 12, "id"
	hands, err := spec.Split(3)
	must.OK(t, err)
	for i, want := range []Spec{{Connections: 2, Threads: 2, MaxConnections: 5, RequestID: "id-0"}, {Connections: 2, Threads: 2, MaxConnections: 4, RequestID: "id-1"},
		{Connections: 1, Threads: 1, MaxConnections: 3, RequestID: "id-2"}} {
		h := hands[i]
		if h.Connections != want.Connections || h.Threads != want.Threads || h.MaxConnections != want.MaxConnections || h.RequestID != want.RequestID ||
			*h.Share != (Share{Index: i, Of: 3, Connections: 5}) {
			t.Errorf("%d: %+v", i, h)
		}
	}
	spec = DefaultSpec("http://h/")
	spec.Rate = rate.Max
	if hands, err = spec.Split(4); err != nil || hands[3].Share != nil || hands[3].Connections != 4 {
		t.Errorf("rate max: %+v, %v", hands, err)
	}
	if _, err = spec.Split(17); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("more generators than connections: %v", err)
	}
	if _, err = hands[0].Split(2); err != nil {
		t.Error(err)
	}
	spec.Rate, spec.Share = 100, &Share{Of: 2}
	if _, err = spec.Split(2); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a share is split again: %v", err)
	}
	spec.Share.Connections = 31 // of which the first of two generators has 16
	must.OK(t, spec.Validate())
	if spec.Share.Index = 1; spec.Validate() == nil {
		t.Error("a share has connections that are not its own")
	}
}

// Generators together record, request by request, what one generator records: no
// count is lost, and the gaps between their actions are those of the schedule.
func TestHandsMeasureAsOne(t *testing.T) {
	addr := okServer(t)
	for _, kind := range []string{Poisson, Uniform, Burst} {
		spec := quick("http://" + addr + "/")
		spec.Arrival, spec.DurationS, spec.Connections, spec.Threads, spec.Rate = kind, 0.3, 5, 1, 400
		hands, err := spec.Split(3)
		must.OK(t, err)
		results := make([]*Result, len(hands))
		var intended []int64
		sums := map[string]int64{}
		for i := range hands {
			results[i] = mustRun(t, hands[i])
			for r := range results[i].Requests.All() {
				intended = append(intended, r.IntendedNS)
			}
			w := results[i].Total()
			sums["scheduled"] += w.Scheduled
			sums["completed"] += w.Intended.TotalCount()
			sums["gaps"] += w.Gaps.N
		}
		merged, err := Merge(results...)
		must.OK(t, err)
		w := merged.Total()
		slices.Sort(intended)
		if want := offsets(spec); !slices.Equal(intended, want) || w.Scheduled != int64(len(want)) || spec.Planned(0, 3e8) != w.Scheduled {
			t.Errorf("%s: %d requests, %d scheduled, one generator has %d", kind, len(intended), w.Scheduled, len(want))
		}
		if w.Scheduled != sums["scheduled"] || w.Intended.TotalCount() != sums["completed"] || w.Gaps.N != sums["gaps"] || !w.Balanced() {
			t.Errorf("%s: together %+v of %v", kind, w.Account, sums)
		}
		if merged.Spec.Share != nil || merged.Spec.Connections != 5 || merged.Replicas != 3 || w.law.apart != 3 || w.law.every != 1 {
			t.Errorf("%s: the whole is %+v, its law %+v", kind, merged.Spec, w.law)
		}
		if part, all := results[0].Report().Rate, merged.Report().Rate; all != 400 || math.Abs(float64(part)-400.0/3) > 0.01 || results[0].Spec.Share == nil {
			t.Errorf("%s: one of three reports %v rps, all %v", kind, part, all)
		}
		// Each generator's gaps are in units of its own mean gap: their mean is
		// about one, unless the machine stalls for the whole test.
		if mean := w.Gaps.Sum / float64(w.Gaps.N); mean < 0.5 || mean > 2 {
			t.Errorf("%s: gaps are %.3f mean gaps long", kind, mean)
		}
	}
}
