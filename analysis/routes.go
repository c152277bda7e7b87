package analysis

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// routes holds the outcomes of requests through a gateway to a trial's added routes, in microseconds
// after the routes' commits.
type routes struct {
	asked              int
	served, resolution []float64
	unserved, errors   int
}

func routesOf(events []*record.Event) (out routes) {
	for _, e := range events {
		s := e.Served
		if s == nil || e.Error != "" {
			continue
		}
		out.asked++
		out.errors += s.Failed
		if s.AnsweredUS == nil {
			out.unserved++
			continue
		}
		out.served = append(out.served, float64(*s.AnsweredUS))
		if s.BadUS != nil {
			out.resolution = append(out.resolution, float64(*s.AnsweredUS-*s.BadUS))
		}
	}
	return out
}

// at returns a quantile of the times until routes were served. Routes that never were count as
// infinitely late.
func (r routes) at(q record.Quantile) float64 {
	switch {
	case len(r.served) == 0:
		return math.Inf(1)
	case r.asked < q.Needs():
		return math.NaN()
	case q == 0.5 && r.unserved == 0:
		return stat.Median(r.served)
	}
	all := slices.Concat(r.served, slices.Repeat([]float64{math.Inf(1)}, r.unserved))
	slices.Sort(all)
	return all[max(1, int(math.Ceil(float64(q)*float64(len(all))-1e-9)))-1]
}

// RouteMeasures returns measures of added routes: the family of when they are served; and how
// precisely that is known, how many never are, and how many answers were wrong.
func RouteMeasures(s *study.Study, family, resolution, unserved, errors string) (served, others []Measure) {
	of := func(name string, figure func(routes) float64) Measure {
		return MeasureOf(name, func(o *Observations, t *record.Trial) float64 {
			r := routesOf(o.Events[t.ID])
			if r.asked == 0 {
				return math.NaN()
			}
			return figure(r)
		})
	}
	served = OfFamily(s, family, func(d finding.Def) Measure {
		never := "too many routes were never served"
		switch d.At {
		case 0.5:
			never = "half of the routes were never served"
		case 1:
			never = "a route was never served"
		}
		return of(d.Name, func(r routes) float64 { return r.at(d.At) }).Reaching(never)
	})
	return served, []Measure{
		of(resolution, func(r routes) float64 {
			if len(r.resolution) == 0 {
				return math.NaN()
			}
			return stat.Median(r.resolution)
		}),
		of(unserved, func(r routes) float64 { return float64(r.unserved) }),
		of(errors, func(r routes) float64 { return float64(r.errors) }),
	}
}
