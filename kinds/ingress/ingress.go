// Package ingress defines the part of study files for studies of gateways under change: its section
// (churn), factors, findings and checks. It depends on no lab and no mesh. The packages below it
// run, judge, analyze and report its trials.
//
// A trial has one Gateway with a number of listeners, certificates and routes. In its window
// HTTPRoutes are added on a schedule. Requests to each begin before it is due and continue until it
// is served; others go to routes that exist all the time.
package ingress

import (
	"slices"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Kind is ingress: gateways that get more routes while they serve.
const Kind study.Kind = record.KindIngress

// Names of the factors.
const (
	FactorIngress      = "ingress"
	FactorRoutes       = "routes"
	FactorListeners    = "listeners"
	FactorCertificates = "certificates"
	FactorChangeRate   = "change_rate"
)

// Levels of the factor ingress.
const (
	Istio        = study.MeshIstio
	EnvoyGateway = "envoy-gateway"
)

// Measures.
const (
	MeasureRoutes = "routes"
	MeasureCost   = "cost"
)

// Scopes of the factors.
const (
	ScopeGateway study.Scope = "gateway"
	ScopeChanges study.Scope = "changes"
)

// Limits of levels.
const (
	maxRoutes       = 10_000
	maxCertificates = 1000
	maxRate         = 100
	// perCertificate is the maximum number of listeners that share a certificate, which names each
	// of them.
	perCertificate = 100
)

func count(name, def, noun, doc string, low, high int64, examples ...string) study.Factor {
	return study.Factor{Name: name, Scope: ScopeGateway, Unit: noun + "s", Default: def, Doc: doc, Numeric: true,
		Pattern: `^[0-9]+$`, Examples: examples, Parse: study.IntegerLevel(low, high), Low: low, Integer: true, Plain: &study.PlainNumber{}}.
		Labelled(study.Counts(noun)).Phrased(study.Grouped(study.Says("with %s " + noun + "s")))
}

var factors = []study.Factor{
	study.Choice(FactorIngress, ScopeGateway, Istio, "Implementation of the Gateway API that serves the routes.", Istio, EnvoyGateway).
		Labelled(study.Says("%s", Istio, "Istio", EnvoyGateway, "Envoy Gateway")),
	count(FactorRoutes, "100", "route", "HTTPRoutes before the first change, each with a host of its own, spread evenly over the listeners.", 1, maxRoutes, "10", "5000"),
	count(FactorListeners, "1", "listener", "Listeners of the Gateway, each with its own domain. Those beyond 64 are in ListenerSets.", 1, maxRoutes, "1", "1000"),
	count(FactorCertificates, "0", "certificate", "Certificates of the listeners, made at random for each trial; 0 for plain HTTP. Listeners share them evenly.", 0, maxCertificates, "0", "1000"),
	study.Factor{Name: FactorChangeRate, Scope: ScopeChanges, Unit: "changes/s", Default: "1", Numeric: true,
		Doc: "Routes added per second, evenly spaced.", Pattern: `^[0-9]+$`, Examples: []string{"1", "10"},
		Parse: study.IntegerLevel(1, maxRate), Low: 1, Integer: true, Plain: &study.PlainNumber{Max: maxRate}}.
		Labelled(study.Says("%s changes/s")).Phrased(study.Says("at %s changes per second")),
}

// Churn is the section of studies of gateways.
type Churn struct {
	// Changes is the number of routes that are added in the window.
	Changes int
	// Every is the initial interval between two requests to an added route, Timeout the time after
	// which a request fails.
	Every, Timeout time.Duration
	// Watched is the number of existing routes that requests go to throughout the window, each at
	// the interval WatchEvery.
	Watched    int
	WatchEvery time.Duration
	// Settle limits the wait for the last route.
	Settle time.Duration
	// Unattached is the number of added routes, the last ones, whose listener does not exist.
	Unattached int
}

// Of returns the section of a study of gateways, nil for others.
func Of(s *study.Study) *Churn {
	c, _ := s.Section.(*Churn)
	return c
}

func fields(c *Churn) study.Object {
	return study.Object{Name: "churn", Flow: true, Fields: []study.Field{
		{Name: "changes", Doc: "Routes added in a trial.", Value: study.Int(&c.Changes, 1, 900)},
		{Name: "every", Doc: "Time between two requests to an added route (open loop), or 1% of the time since the first if that is more: the resolution of when it is served.",
			Value: study.Duration(&c.Every, 500*time.Microsecond, time.Second)},
		{Name: "timeout", Doc: "Request timeout.", Value: study.Duration(&c.Timeout, 10*time.Millisecond, time.Minute)},
		{Name: "watched", Doc: "Existing routes that requests go to throughout the window, at most as many as there are.", Value: study.Int(&c.Watched, 0, 100)},
		{Name: "watch_every", Doc: "Time between two requests to such a route (open loop).", Value: study.Duration(&c.WatchEvery, time.Millisecond, 10*time.Second)},
		{Name: "settle", Doc: "Longest wait for the last route to be served.", Value: study.Duration(&c.Settle, time.Second, 10*time.Minute)},
		{Name: "unattached", Doc: "Added routes, the last ones, whose listener does not exist, to test a study: they are never served.", Value: study.Int(&c.Unattached, 0, 900)},
	}}
}

func defaults() *Churn {
	return &Churn{Changes: 20, Every: 5 * time.Millisecond, Timeout: time.Second, Watched: 10, WatchEvery: 50 * time.Millisecond, Settle: 30 * time.Second}
}

// Levels are a cell's levels as values.
type Levels struct {
	Ingress                                     string
	Routes, Listeners, Certificates, ChangeRate int
}

// LevelsOf parses the levels of a cell.
func LevelsOf(cell record.Cell) (l Levels, err error) {
	l.Ingress = cell[FactorIngress]
	for _, f := range []struct {
		name string
		to   *int
	}{{FactorRoutes, &l.Routes}, {FactorListeners, &l.Listeners}, {FactorCertificates, &l.Certificates}, {FactorChangeRate, &l.ChangeRate}} {
		if *f.to, err = strconv.Atoi(cell[f.name]); err != nil {
			return l, err
		}
	}
	return l, nil
}

// Uses reports whether a plan measures an ingress.
func Uses(p *study.Plan, ingress string) bool { return slices.Contains(Ingresses(p), ingress) }

// Ingresses returns the ingresses that a plan measures; none for other kinds of study.
func Ingresses(p *study.Plan) (out []string) {
	if p.Study.Kind != Kind {
		return nil
	}
	for _, cell := range p.Cells {
		if name := cell[FactorIngress]; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// checkPlan finds numbers that do not fit together.
func checkPlan(d *study.Decoder, p *study.Plan) {
	c := Of(p.Study)
	if c.Unattached > c.Changes {
		d.Fail(d.Pos("churn", "unattached"), study.CodeConflict, "use at most as many as changes", "%d of %d added routes cannot be unattached", c.Unattached, c.Changes)
		return
	}
	for _, cell := range p.Cells {
		l, err := LevelsOf(cell)
		if err != nil {
			continue // reported elsewhere
		}
		fail := func(hint, format string, args ...any) {
			d.Fail(p.Study.Place(FactorListeners, FactorCertificates), study.CodeConflict, hint, "cell %s: "+format, append([]any{p.Label(cell)}, args...)...)
		}
		switch {
		case l.Certificates > l.Listeners:
			fail("a listener has one certificate: raise listeners or lower certificates", "%d certificates for %d listeners", l.Certificates, l.Listeners)
		case l.Certificates > 0 && l.Listeners > perCertificate*l.Certificates:
			fail("a certificate names each of its listeners, at most 100: raise certificates", "%d listeners for %d certificates", l.Listeners, l.Certificates)
		default:
			continue
		}
		return
	}
	if rate := float64(c.Watched) / c.WatchEvery.Seconds(); rate > mostRequests {
		d.Fail(d.Pos("churn", "watch_every"), study.CodeLimit, "lower watched or raise watch_every", "%.0f requests per second to existing routes: more than %d would be a load of their own", rate, mostRequests)
	}
}

// mostRequests is the maximum number of requests per second to existing routes: they are a load of
// their own on the machine.
const mostRequests = 2000

// Times for the estimate of a trial's duration.
const (
	gatewayTime = 10 * time.Second      // starting a gateway, and its end
	routeTime   = 20 * time.Millisecond // creating a route, until it is served, and deleting it
)

func trialTime(s *study.Study, cell record.Cell) (shortest, longest time.Duration) {
	l, err := LevelsOf(cell)
	if err != nil {
		return 0, 0
	}
	c := Of(s)
	base := gatewayTime + time.Duration(l.Routes+l.Listeners+l.Certificates)*routeTime + ChangeTime(c, l) + study.SwitchTime
	return base + time.Second, base + c.Settle
}

// ChangeTime returns the time over which a trial's routes are added.
func ChangeTime(c *Churn, l Levels) time.Duration {
	return time.Duration(c.Changes) * time.Second / time.Duration(l.ChangeRate)
}

func init() {
	study.AddKind(Kind, study.Spec{
		About: "gateways", Section: "churn", ByDefault: "{}", Example: FactorRoutes + ": 1000",
		Factors: factors, Measures: []string{MeasureRoutes, MeasureCost}, Findings: table,
		Reference: reference, Sample: "{churn: {}}",
		Lacks: func(t *record.Trial) string { // a trial that did not reach its end has none
			if t.Ingress == nil && t.Validity.Valid {
				return "ingress"
			}
			return ""
		},
		NewSection: func() any { return defaults() },
		Fields: func(section any) []study.Placed {
			return []study.Placed{{After: "mesh", Field: study.Field{Name: "churn", Value: fields(section.(*Churn)),
				Doc: "Makes this a study of gateways, with its own factors: routes are added, and requests see when each is served. {} for all defaults."}}}
		},
		Begin: func(s *study.Study) {
			s.Mesh, s.Load, s.Warmup = study.MeshNone, study.Load{}, study.Warmup{}
		},
		CheckPlan: checkPlan,
		Trial:     trialTime,
	})
}

const reference = `
A study with the section ` + "`churn`, even `{}`" + `, is a study of gateways. It has only these factors, and no
` + "`workload`, `load`, `warmup`, `window` or `interval`" + `. ` + "`mesh`" + ` stays none: the factor ` + "`ingress`" + ` names what serves.
`
