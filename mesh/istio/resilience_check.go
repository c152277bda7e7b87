package istio

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// ConfigPath returns Envoy's path.
func (*Mesh) ConfigPath() string { return "/config_dump" }

// shownWrong limits the number of a graph's routes that a check names.
const shownWrong = 3

// CheckTraffic compares the configuration in force in a caller's Envoy with the
// cell. In addition to each lever, it checks which objects created routes and
// clusters: only those of [Mesh.Traffic], so that what a cell leaves at its
// default is the mesh's own.
func (*Mesh) CheckTraffic(config []byte, routes []mesh.Route, cell record.Cell, ledger bool) []record.Check {
	have, err := readInForce(config)
	if err != nil {
		return []record.Check{{Name: "traffic", Detail: err.Error()}}
	}
	checks := []record.Check{
		ledgerCheck("ledger-requests", have.requestLog, ledger, "a line per request"),
		ledgerCheck("ledger-attempts", have.attemptLog, ledger, "a line per attempt"),
	}
	for _, lever := range trafficLevers {
		right, applies := lever.want(cell)
		if !applies {
			continue
		}
		var wrong []string
		left := 0
		for _, r := range routes {
			for _, what := range lever.wrong(have, r, cell) {
				if len(wrong) < shownWrong {
					wrong = append(wrong, r.Name+": "+what)
				} else {
					left++
				}
			}
		}
		if left > 0 {
			wrong = append(wrong, fmt.Sprintf("and %d more", left))
		}
		checks = append(checks, check(lever.name, wrong, right))
	}
	return checks
}

func ledgerCheck(name string, has, want bool, what string) record.Check {
	detail := fmt.Sprintf("the proxy's configuration has the ledger's log, %s: %v", what, has)
	if has != want {
		detail += fmt.Sprintf("; the study asks for it: %v", want)
	}
	return record.Check{Name: name, OK: has == want, Detail: detail}
}

// trafficLever verifies a lever. want returns the expected value and whether
// the cell sets the lever; wrong returns what is incorrect for a service.
type trafficLever struct {
	name  string
	want  func(record.Cell) (string, bool)
	wrong func(inForce, mesh.Route, record.Cell) []string
}

var trafficLevers = []trafficLever{
	{"traffic-routes", func(cell record.Cell) (string, bool) {
		return "routes are the mesh's defaults" + andOurs(httpRule(cell) != nil, "VirtualServices"), true
	}, ofRoutes(func(route envoyRoute, r mesh.Route, cell record.Cell) []string {
		if r.Via != "" { // nothing is forwarded without one
			r.Name = r.Via
			return madeOtherwise(route.Metadata, r, "virtual-service", true)
		}
		return madeOtherwise(route.Metadata, r, "virtual-service", httpRule(cell) != nil)
	})},
	{"traffic-clusters", func(cell record.Cell) (string, bool) {
		return "clusters are the mesh's defaults" + andOurs(len(trafficPolicy(cell)) > 0, "DestinationRules"), true
	}, ofCluster(func(c envoyCluster, r mesh.Route, cell record.Cell) []string {
		return madeOtherwise(c.Metadata, r, "destination-rule", len(trafficPolicy(cell)) > 0)
	})},
	{study.FactorRetries, func(cell record.Cell) (string, bool) {
		n, asked := attempts(cell)
		return fmt.Sprintf("the caller's proxy has %d", n), asked
	}, ofRoutes(wrongRetries)},
	lever(study.FactorRetryOn, ofRoutes(wrongRetryOn)),
	{study.FactorPerTryTimeout, always(study.FactorPerTryTimeout), ofRoutes(wrongPerTry)},
	{study.FactorRequestTimeout, always(study.FactorRequestTimeout), ofRoutes(wrongTimeout)},
	{study.FactorOutlierDetection, always(study.FactorOutlierDetection), ofCluster(wrongOutliers)},
	{study.FactorCircuitBreaker, always(study.FactorCircuitBreaker), ofCluster(wrongBreakers)},
	lever(study.FactorLoadBalancer, func(have inForce, r mesh.Route, cell record.Cell) []string {
		return append(ofCluster(wrongBalancer)(have, r, cell), ofRoutes(wrongHash)(have, r, cell)...)
	}),
}

// lever returns a trafficLever whose default is the mesh's choice.
func lever(factor string, wrong func(inForce, mesh.Route, record.Cell) []string) trafficLever {
	return trafficLever{factor, func(cell record.Cell) (string, bool) {
		return "the caller's proxy has " + cell[factor], level(cell, factor) != ""
	}, wrong}
}

// always is for a lever that is off by default.
func always(factor string) func(record.Cell) (string, bool) {
	return func(cell record.Cell) (string, bool) {
		v, ok := cell[factor]
		return "the caller's proxy has " + v, ok && v != study.NotApplicable
	}
}

func andOurs(ours bool, kind string) string {
	if ours {
		return " and the study's own " + kind
	}
	return ""
}

// ofRoutes checks every route to a service.
func ofRoutes(wrong func(envoyRoute, mesh.Route, record.Cell) []string) func(
	inForce, mesh.Route, record.Cell) []string {
	return func(have inForce, r mesh.Route, cell record.Cell) []string {
		routes := have.routes[clusterOf(r)]
		if len(routes) == 0 {
			return []string{"the proxy has no route to it"}
		}
		var out []string
		for _, route := range routes {
			out = merged(out, wrong(route, r, cell))
		}
		return out
	}
}

func ofCluster(wrong func(envoyCluster, mesh.Route, record.Cell) []string) func(inForce, mesh.Route, record.Cell) []string {
	return func(have inForce, r mesh.Route, cell record.Cell) []string {
		c, ok := have.clusters[clusterOf(r)]
		if !ok {
			return []string{"the proxy has no cluster for it"}
		}
		return wrong(c, r, cell)
	}
}

// clusterOf returns Istio's name for a service's cluster.
func clusterOf(r mesh.Route) string {
	return fmt.Sprintf("outbound|%d||%s", r.Port, hostIn(r.Namespace, r.Name))
}

func madeOtherwise(m istioMetadata, r mesh.Route, kind string, ours bool) []string {
	got, want := m.madeBy(), ""
	if ours {
		want = r.Namespace + "/" + kind + "/" + r.Name
	}
	if got == want {
		return nil
	}
	return []string{fmt.Sprintf("made by %s, expected %s", orNone(got), orNone(want))}
}

func wrongRetries(route envoyRoute, _ mesh.Route, cell record.Cell) []string {
	got := int64(0)
	if p := route.Action.Retry; p != nil && p.On != "" {
		got = 1
		if p.Num != nil {
			got = *p.Num
		}
	}
	want, _ := attempts(cell)
	return differ("retries", got, want)
}

func wrongRetryOn(route envoyRoute, _ mesh.Route, cell record.Cell) []string {
	var got, want []string
	if p := route.Action.Retry; p != nil {
		got = strings.Split(p.On, ",")
		for _, code := range p.Codes {
			got = append(got, strconv.FormatInt(code, 10))
		}
	}
	for word := range strings.SplitSeq(level(cell, study.FactorRetryOn), ",") {
		want = append(want, word)
		// istiod adds the condition that status codes require.
		if code, _ := strconv.Atoi(word); http.StatusText(code) != "" {
			want = append(want, "retriable-status-codes")
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	return differ("retries on", strings.Join(slices.Compact(got), ","), strings.Join(slices.Compact(want), ","))
}

func wrongPerTry(route envoyRoute, _ mesh.Route, cell record.Cell) []string {
	got := ""
	if p := route.Action.Retry; p != nil {
		got = p.Each
	}
	return differ("time of an attempt", lasting(got), lasting(level(cell, study.FactorPerTryTimeout)))
}

func wrongTimeout(route envoyRoute, _ mesh.Route, cell record.Cell) []string {
	got := cmp.Or(route.Action.Timeout, "15s") // Envoy's own default, which Istio disables
	return differ("time of a request", lasting(got), lasting(level(cell, study.FactorRequestTimeout)))
}

func wrongOutliers(c envoyCluster, _ mesh.Route, cell record.Cell) []string {
	settings := study.ParseSettings(level(cell, study.FactorOutlierDetection))
	o := c.Outliers
	if o == nil || len(settings) == 0 {
		return differ("outlier detection", o != nil, len(settings) > 0)
	}
	var out []string
	for _, f := range outlierFields {
		switch value := settings[f.setting]; {
		case value == "": // Envoy's default
		case f.setting == "errors":
			out = append(out, differ(f.setting, number(o.Errors), whole(value))...)
		case f.setting == "max":
			percent, _ := wholePercent(value)
			out = append(out, differ(f.setting, number(o.Max), percent)...)
		case f.setting == "interval":
			out = append(out, differ(f.setting, lasting(o.Interval), lasting(value))...)
		default:
			out = append(out, differ(f.setting, lasting(o.Ejection), lasting(value))...)
		}
	}
	return out
}

// unbounded is the value that istiod writes for no limit.
const unbounded = math.MaxUint32

func wrongBreakers(c envoyCluster, _ mesh.Route, cell record.Cell) []string {
	settings := study.ParseSettings(level(cell, study.FactorCircuitBreaker))
	var t threshold
	for _, one := range c.Breakers.Thresholds {
		if one.Priority == "" || one.Priority == "DEFAULT" {
			t = one
		}
	}
	got := map[string]*int64{"connections": t.Connections, "pending": t.Pending, "requests": t.Requests, "retries": t.Retries}
	var out []string
	for _, f := range poolFields {
		want := int64(unbounded)
		if value := settings[f.setting]; value != "" {
			want = whole(value)
		}
		out = append(out, differ(f.setting, number(got[f.setting]), want)...)
	}
	return out
}

func wrongBalancer(c envoyCluster, _ mesh.Route, cell record.Cell) []string {
	got := cmp.Or(strings.ToLower(c.Policy), "round_robin")
	return differ("load balancer", got, level(cell, study.FactorLoadBalancer))
}

func wrongHash(route envoyRoute, _ mesh.Route, cell record.Cell) []string {
	var got, want []string
	for _, h := range route.Action.Hash {
		got = append(got, h.Header.Name)
	}
	if level(cell, study.FactorLoadBalancer) == "ring_hash" {
		want = []string{hashHeader}
	}
	return differ("hashed headers", strings.Join(got, ","), strings.Join(want, ","))
}

// number returns the value, or -1 if absent.
func number(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// lasting parses a duration from a level or protobuf's JSON; 0 for "" and
// invalid text.
func lasting(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// differ describes a difference between the observed and the requested value;
// nil if equal.
func differ[T comparable](what string, got, want T) []string {
	if got == want {
		return nil
	}
	return []string{fmt.Sprintf("%s: the proxy has %v, the cell sets %v", what, got, want)}
}
