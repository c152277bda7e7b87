package assess

import (
	"cmp"
	"math"
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
	// adds that passes it, by a line through all sidecars whose CPU and requests are known of the same
	// time; nil where these do not tell.
	Idle *money.Value `json:"idle_cores,omitempty"`
	Each *money.Value `json:"cores_per_request_per_s,omitempty"`
	// Fitted is how many sidecars the line is through.
	Fitted int `json:"fitted,omitempty"`
	// Misfits are workloads whose sidecars' requests or limits do not suit what they use, worst first.
	Misfits []Misfit `json:"misfits,omitempty"`
	// Latency is what proxies add to requests, as runs measured it.
	Latency []Latency `json:"latency,omitempty"`
	Prices  Prices    `json:"prices"`
}

// Misfit is a resource of which a workload's sidecars request too much or too little.
type Misfit struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Sidecars  int    `json:"sidecars"`
	Of        string `json:"of"` // [OfCPU] or [OfMemory]
	Fit       Fit    `json:"fit"`
	// All are of the workload's sidecars together, in cores or bytes; a limit of 0 is none. Used is of those
	// that are limited, or else of those that request the resource.
	Used      float64 `json:"used"`
	Requested float64 `json:"requested"`
	Limit     float64 `json:"limit,omitempty"`
}

// What misfits are of.
const (
	OfCPU    = "cpu"
	OfMemory = "memory"
)

// Fit says how requests or limits suit what is used.
type Fit string

// Fits that do not suit, the worst first.
const (
	FitNearLimit Fit = "near_limit" // more than nearLimit of the limit is used
	FitUnder     Fit = "under"      // more is used than is requested
	FitOver      Fit = "over"       // less than overRequested of what is requested is used
)

const (
	nearLimit     = 0.8
	overRequested = 0.25
	mostMisfits   = 20
)

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
	Limits    Resources `json:"limits"`
	// PerS are requests per second through those whose counters were read; nil where none were.
	PerS  *float64 `json:"per_s,omitempty"`
	Month float64  `json:"month,omitempty"`
	// requesting and limited are what those of them use that request a resource, or are limited in it.
	requesting, limited Resources
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
			w.Used, w.Requests, w.Limits = w.Used.plus(used), w.Requests.plus(p.Requests), w.Limits.plus(p.Limits)
			w.requesting, w.limited = w.requesting.plus(used.where(p.Requests)), w.limited.plus(used.where(p.Limits))
			if p.Called == nil {
				continue
			}
			rate := *p.Called + *p.Served
			if w.PerS == nil {
				w.PerS = new(float64)
			}
			*w.PerS += rate
			busiest = max(busiest, rate)
			cores := *p.Cores
			if p.CoresCounted != nil {
				cores = *p.CoresCounted
			}
			if !math.IsNaN(cores) {
				points = append(points, stat.FitPoint{X: rate, Y: cores})
			}
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
	c.Misfits = misfits(c.Workloads)
	c.Workloads = c.Workloads[:min(len(c.Workloads), mostWorkloads)]
	if a.Mesh.Count(Sidecar) > 0 {
		a.line(points, busiest)
	}
	a.latency(e)
	if !e.Prices.Stated() {
		a.add(NoPrices.Of())
	}
}

// misfits compares what workloads' sidecars use with what they request, and are limited to. Of those of a workload
// that differ, as in a rollout, each is compared with its own.
func misfits(workloads []WorkloadUse) (out []Misfit) {
	for _, w := range workloads {
		for _, r := range []struct {
			of                                    string
			limited, limit, requesting, requested float64
		}{{OfCPU, w.limited.Cores, w.Limits.Cores, w.requesting.Cores, w.Requests.Cores}, {OfMemory, w.limited.Bytes, w.Limits.Bytes, w.requesting.Bytes, w.Requests.Bytes}} {
			m := Misfit{w.Namespace, w.Workload, w.Measured, r.of, "", r.requesting, r.requested, r.limit}
			switch {
			case r.limit > 0 && r.limited > nearLimit*r.limit:
				m.Fit, m.Used = FitNearLimit, r.limited
			case r.requested > 0 && r.requesting > r.requested:
				m.Fit = FitUnder
			case r.requesting < overRequested*r.requested:
				m.Fit = FitOver
			default:
				continue
			}
			out = append(out, m)
		}
	}
	order := []Fit{FitNearLimit, FitUnder, FitOver}
	missed := func(m Misfit) float64 {
		switch m.Fit {
		case FitNearLimit:
			return m.Used / m.Limit
		case FitUnder:
			return m.Used/m.Requested - 1
		}
		unused := m.Requested - m.Used
		if m.Of == OfMemory {
			unused /= bytesForCore
		}
		return unused
	}
	slices.SortStableFunc(out, func(a, b Misfit) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Fit), slices.Index(order, b.Fit)), cmp.Compare(missed(b), missed(a)))
	})
	return out[:min(len(out), mostMisfits)]
}

// bytesForCore is the memory that is usually sold with a core: unused memory and CPU are listed by it.
const bytesForCore = 4e9

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
