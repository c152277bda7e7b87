package assess

import (
	"cmp"
	"slices"

	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/money"
)

// Cost is what the mesh takes.
type Cost struct {
	Uses []Use `json:"uses"`
	// Workloads are those whose sidecars use most CPU, most first.
	Workloads []WorkloadUse `json:"workloads,omitempty"`
	// Idle is what a sidecar uses without requests, in cores, and Each what each request per second
	// adds that passes it, by a line through all sidecars whose CPU and requests are known; nil where
	// these do not tell.
	Idle *money.Value `json:"idle_cores,omitempty"`
	Each *money.Value `json:"cores_per_request_per_s,omitempty"`
	// Fitted is how many sidecars the line is through.
	Fitted int    `json:"fitted,omitempty"`
	Prices Prices `json:"prices"`
}

// Use is what those of a kind use, of those that were measured.
type Use struct {
	Kind     Kind      `json:"kind"`
	Count    int       `json:"count"`
	Measured int       `json:"measured"`
	Metered  int       `json:"by_prometheus,omitempty"` // of the measured ones
	Used     Resources `json:"used"`
	Requests Resources `json:"requests"` // of the measured ones
	Limits   Resources `json:"limits"`
	// OfRequests is what those of them use that request a resource, OfLimits what those use that are
	// limited in it.
	OfRequests Resources `json:"used_by_requesting"`
	OfLimits   Resources `json:"used_by_limited"`
	// Month and Reserved price what is used and what is requested; 0 without prices.
	Month    float64 `json:"month,omitempty"`
	Reserved float64 `json:"requested_month,omitempty"`
}

// WorkloadUse is what the sidecars of a workload use.
type WorkloadUse struct {
	Namespace string    `json:"namespace"`
	Workload  string    `json:"workload"`
	Measured  int       `json:"measured"`
	Used      Resources `json:"used"`
	Requests  Resources `json:"requests"`
	// PerS are requests per second through those whose counters were read; nil where none were.
	PerS  *float64 `json:"per_s,omitempty"`
	Month float64  `json:"month,omitempty"`
}

const (
	mostWorkloads = 20
	// A line takes fewestFitted sidecars, and some that carry leastRate requests per second.
	fewestFitted = 5
	leastRate    = 1.0
)

func (a *Assessment) cost(e Evidence) {
	c := &a.Cost
	c.Prices = e.Prices
	type key struct{ namespace, workload string }
	by := map[key]*WorkloadUse{}
	var points []stat.FitPoint
	busiest := 0.0
	for _, kind := range Kinds {
		u := Use{Kind: kind}
		for _, p := range e.Proxies {
			if p.Kind != kind {
				continue
			}
			u.Count++
			if p.Cores == nil || p.Bytes == nil {
				continue
			}
			used := Resources{*p.Cores, *p.Bytes}
			u.Measured++
			if p.UsageBy == ByPrometheus {
				u.Metered++
			}
			u.Used, u.Requests, u.Limits = u.Used.plus(used), u.Requests.plus(p.Requests), u.Limits.plus(p.Limits)
			u.OfRequests, u.OfLimits = u.OfRequests.plus(used.where(p.Requests)), u.OfLimits.plus(used.where(p.Limits))
			if kind != Sidecar {
				continue
			}
			k := key{p.Namespace, p.Workload}
			if by[k] == nil {
				by[k] = &WorkloadUse{Namespace: p.Namespace, Workload: p.Workload}
			}
			w := by[k]
			w.Measured++
			w.Used, w.Requests = w.Used.plus(used), w.Requests.plus(p.Requests)
			if p.Called == nil {
				continue
			}
			rate := *p.Called + *p.Served
			if w.PerS == nil {
				w.PerS = new(float64)
			}
			*w.PerS += rate
			busiest = max(busiest, rate)
			points = append(points, stat.FitPoint{X: rate, Y: *p.Cores})
		}
		if u.Count == 0 {
			continue
		}
		if e.Prices.Stated() {
			u.Month, u.Reserved = e.Prices.month(u.Used), e.Prices.month(u.Requests)
		}
		if u.Measured < u.Count {
			a.add(UnknownUse.Of(u.Count-u.Measured, u.Count, string(kind)))
		}
		c.Uses = append(c.Uses, u)
	}
	for _, w := range by {
		w.Month = e.Prices.month(w.Used)
		c.Workloads = append(c.Workloads, *w)
	}
	slices.SortFunc(c.Workloads, func(a, b WorkloadUse) int {
		return cmp.Or(cmp.Compare(b.Used.Cores, a.Used.Cores), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload))
	})
	c.Workloads = c.Workloads[:min(len(c.Workloads), mostWorkloads)]
	if a.Mesh.Count(Sidecar) > 0 {
		a.line(points, busiest)
		a.add(NoLatency.Of())
	}
	if !e.Prices.Stated() {
		a.add(NoPrices.Of())
	}
}

// line tells apart what sidecars use without requests and what requests add.
func (a *Assessment) line(points []stat.FitPoint, busiest float64) {
	if len(points) > 0 && busiest < leastRate {
		a.add(NoRequests.Of(a.Traffic.WindowS))
		var idle []float64
		for _, p := range points {
			idle = append(idle, p.Y)
		}
		if mean := stat.Mean(idle, stat.Options{}); mean.Defined() {
			a.Cost.Idle, a.Cost.Fitted = valueOf(mean), len(points)
		}
		return
	}
	line := stat.Regression(points, stat.Options{})
	if len(points) < fewestFitted || !line.Slope.Defined() {
		a.add(NoSlope.Of(len(points)))
		return
	}
	a.Cost.Idle, a.Cost.Each, a.Cost.Fitted = valueOf(line.Intercept), valueOf(line.Slope), len(points)
}

func valueOf(e stat.Estimate) *money.Value {
	return &money.Value{Estimate: e.Value, Low: e.Low, High: e.High}
}
