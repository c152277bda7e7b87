package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/money"
)

// AssessmentFormats are what [RenderAssessment] draws, besides JSON, which is the assessment itself.
var AssessmentFormats = []string{"text", "markdown", "html", "openmetrics"}

// RenderAssessment writes what is known of a mesh in one of [AssessmentFormats].
func RenderAssessment(w io.Writer, a assess.Assessment, format string, opt Options) error {
	if format == "openmetrics" {
		return assessmentMetrics(w, a)
	}
	switch p := assessmentPage(a); format {
	case "text":
		return drawText(w, p, opt)
	case "markdown":
		return drawMarkdown(w, p)
	default:
		return writePage(w, p)
	}
}

// assessmentPage draws an assessment as values.
func assessmentPage(a assess.Assessment) Page {
	at := a.At.UTC().Format("2006-01-02 15:04 UTC")
	if a.WindowS > 0 {
		at += ", watched for " + ScaleFor("s", a.WindowS).Value(a.WindowS)
	}
	p := Page{Title: "Assessment of " + a.Source, Answers: assessmentAnswers(a), Facts: []Fact{{"at", at}},
		Factors: []PageFactor{}, Cells: []record.Cell{}, Warnings: []string{},
		Footer: "Nothing was changed in the mesh. " + selfContained}
	if a.Mesh.Istiod != "" {
		p.Facts = append(p.Facts, Fact{"istiod", a.Mesh.Istiod})
	}
	if a.Mesh.Nodes > 0 {
		p.Facts = append(p.Facts, Fact{"nodes", Count(a.Mesh.Nodes) + " with pods"})
	}
	add := func(name, title string, tables ...Table) {
		if tables = withRows(tables...); len(tables) > 0 {
			p.Sections = append(p.Sections, PageSection{Name: name, Title: title, Tables: tables})
		}
	}
	add("against", "What changed", againstTable(a))
	add(assess.SectionMesh, "The mesh", groupsTable(a.Mesh), deploymentsTable(a.Mesh), skewsTable(a.Mesh), problemsTable(a.Mesh), settingsTable(a.Mesh), objectsTable(a.Mesh))
	traffic, log := *cmp.Or(a.Traffic, &assess.Traffic{}), *cmp.Or(a.Log, &assess.Log{}) // without rows, a table is left out
	add(assess.SectionTraffic, "The traffic", trafficTable(traffic), protocolsTable(traffic), hostsTable(traffic), callsTable(traffic), loggedTable(a.Logged))
	add(assess.SectionCost, "What it costs today", usesTable(a.Cost), eachTable(a.Cost), latencyTable(a.Cost), workloadsTable(a.Cost), misfitsTable(a.Cost))
	add(assess.SectionLimits, "What limits it", append([]Table{adviceTable(a.Limits), logTable(log), logProblems(log)}, profilesTables(a.Profiles)...)...)
	add("signals", "Golden signals of istiod", signalsTables(a.Signals)...)
	add(assess.SectionConfiguration, "Configuration", configurationTables(a.Configuration)...)
	add(assess.SectionModes, "Sidecars or ambient", modesTables(a)...)
	add(assess.SectionCapacity, "Capacity of istiod", capacityTables(a)...)
	add("settle", "Settle it", settleTable(a.Settle))
	add("unknown", "What is unknown", unknownTable(a.Unknown))
	return p
}

// measuredBy says where unit costs are from.
func measuredBy(m assess.Modes) string {
	out := fmt.Sprintf("Unit costs of run %s of study %s on %s, with %s.", m.Run, m.Study, m.Machine, componentWords(m.Parts))
	if m.Shipped {
		out += " They ship with the program: another machine has others, which --with takes."
	}
	return out
}

// assessmentAnswers say the most important in sentences.
func assessmentAnswers(a assess.Assessment) []string {
	var have []string
	for _, kind := range assess.Kinds {
		if n := a.Mesh.Count(kind); n > 0 {
			have = append(have, kindWords(kind, n))
		}
	}
	if len(have) == 0 && a.Signals != nil {
		return nil
	}
	if len(have) == 0 {
		return []string{"No proxy and no istiod was found."}
	}
	out := []string{"The mesh has " + words.List(have) + "."}
	if n := a.Mesh.Namespaces; n > 0 {
		out[0] = "The mesh has " + words.List(have) + "; the sidecars are in " + words.Plural(n, "namespace") + "."
	}
	out = append(out, costAnswers(a.Cost)...)
	out = append(out, limitAnswers(a)...)
	if c := a.Configuration; c != nil && c.Saving != nil && c.Sidecars > 0 && c.Saving.Now.Dump-c.Saving.After.Dump > c.Saving.Now.Dump/200 {
		out = append(out, fmt.Sprintf("Sidecars for what the workloads call would take %s of their configuration away.",
			Share(c.Saving.Now.Dump-c.Saving.After.Dump, c.Saving.Now.Dump).S))
	}
	for _, m := range a.Modes {
		for _, says := range m.Sizing.Says {
			out = append(out, says.String())
		}
	}
	if n := len(a.Unknown); n > 0 {
		out = append(out, fmt.Sprintf("Unknown: %s, and how to find each out.", words.Plural(n, "thing")))
	}
	return out
}

// costAnswers say what sidecars take, and add to latency.
func costAnswers(c assess.Cost) (out []string) {
	for _, u := range c.Uses {
		if u.Kind != assess.Sidecar || u.Measured == 0 {
			continue
		}
		verb := "use"
		if u.Measured == 1 {
			verb = "uses"
		}
		line := fmt.Sprintf("%s %s %s and %s", UpperFirst(ofAll(u)), verb, cores(u.Used.Cores), amount(u.Used.Bytes))
		if u.Requests.Cores > 0 && u.Requests.Bytes > 0 {
			line += fmt.Sprintf(", %s and %s of what they request", Percent(u.OfRequests.Cores/u.Requests.Cores), Percent(u.OfRequests.Bytes/u.Requests.Bytes))
		}
		if u.Reserved > 0 {
			line += fmt.Sprintf("; what they request is worth %s %s a month", Fixed(u.Reserved, 0), c.Prices.Currency)
		}
		out = append(out, line+".")
	}
	for _, l := range c.Latency {
		otherwise := func(o assess.Latency) bool { return o.Cell["sidecars"] == "both" && o.Rate != l.Rate } // since the mesh's is unknown
		if l.P50 != nil && l.Cell["sidecars"] == "both" && !slices.ContainsFunc(c.Latency, otherwise) {
			return append(out, fmt.Sprintf("Sidecars add %s to the median latency of a request at %s/s, as a run measured on another machine%s.", addedLatency(l.P50).S, short(l.Rate), withLacking(l)))
		}
	}
	return out
}

// limitAnswers say what limits istiod, and which known problems its version has.
func limitAnswers(a assess.Assessment) (out []string) {
	if r := a.Limits; r != nil {
		var titles []string
		for _, j := range r.Advice {
			titles = append(titles, j.Title)
		}
		switch {
		case len(titles) > 0:
			out = append(out, "What limits it: "+strings.Join(titles, "; ")+".")
		case len(r.RuledOut) > 0:
			out = append(out, fmt.Sprintf("Nothing was found that limits istiod: %s ruled out, %s undecided.", words.Plural(len(r.RuledOut), "rule"), Count(len(r.Undecided))))
		}
	}
	for _, d := range a.Mesh.Deployments {
		if d.Full() {
			out = append(out, fmt.Sprintf("The autoscaler of %s %s/%s is at its most, %s.", d.Kind, d.Namespace, d.Name, words.Plural(d.Autoscaled.Most, "replica")))
		}
	}
	if n := len(a.Mesh.Problems); n > 0 {
		out = append(out, fmt.Sprintf("The versions have %s of performance.", words.Plural(n, "known problem")))
	}
	if p := a.Capacity; p != nil && p.Limits != nil && p.Limits.Proxies > 0 {
		carries := fmt.Sprintf("By the capacity model istiod carries up to %s%s, and has %s now.", words.Plural(p.Limits.Proxies, "proxy"), model.TimesBeyond(p.Limits.ProxiesBeyond), Count(p.Mesh.Proxies))
		if p.Shipped {
			carries += " The model was measured on another machine."
		}
		out = append(out, carries)
	}
	return out
}

func kindWords(kind assess.Kind, n int) string {
	if kind == assess.Istiod {
		return words.Plural(n, "replica") + " of istiod"
	}
	return words.Plural(n, string(kind))
}

// ofAll says of how many of a kind a figure is.
func ofAll(u assess.Use) string {
	switch {
	case u.Count == 1:
		return kindWords(u.Kind, 1)
	case u.Measured == u.Count:
		return "all " + kindWords(u.Kind, u.Count)
	}
	return fmt.Sprintf("%s of %s", Count(u.Measured), kindWords(u.Kind, u.Count))
}

func cores(v float64) string  { return ScaleFor("cores", v).Value(v) }
func amount(v float64) string { return ScaleFor("bytes", v).Value(v) }

// some is a value, or a dash for 0.
func some(v float64, text func(float64) string) Text {
	if v == 0 {
		return Dash
	}
	return Text{S: text(v)}
}

func whole(v float64) string { return Fixed(v, 0) }

func groupsTable(m assess.Mesh) Table {
	t := Table{Title: "Proxies and istiod", Columns: []Column{{Head: "what"}, {Head: "version"}, {Head: "revision", Keep: 4}, {Head: "count", Right: true},
		{Head: "namespaces", Right: true, Keep: 3}, {Head: "CPU requested", Right: true}, {Head: "CPU limit", Right: true, Keep: 6}, {Head: "without CPU limit", Right: true, Keep: 2},
		{Head: "memory requested", Right: true}, {Head: "memory limit", Right: true, Keep: 5}, {Head: "restarts", Right: true, Keep: 1}}}
	for _, g := range m.Proxies {
		t.Rows = append(t.Rows, []Text{{S: string(g.Kind)}, {S: g.Version}, {S: g.Revision}, {S: Count(g.Count)}, {S: Count(g.Namespaces)},
			some(g.Requests.Cores, cores), some(g.Limits.Cores, cores), some(float64(g.Unlimited), whole), some(g.Requests.Bytes, amount), some(g.Limits.Bytes, amount), {S: Count(g.Restarts)}})
	}
	t.Notes = append(t.Notes, "Requests and limits are of the proxies' containers, all of a row together.")
	if s := m.Sync; s != nil && s.Behind > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%s of %s connected to istiod had not acknowledged what it last sent them, such as %s.", Count(s.Behind), words.Plural(s.Proxies, "proxy"), s.Example))
	}
	if m.Enrolled > 0 {
		t.Notes = append(t.Notes, words.Plural(m.Enrolled, "pod")+" without a sidecar have their requests carried by ztunnels.")
	}
	return withoutEmpty(t)
}

func deploymentsTable(m assess.Mesh) Table {
	t := Table{Title: "Control plane, gateways and waypoints", Columns: []Column{{Head: "what"}, {Head: "Deployment"}, {Head: "version", Keep: 3}, {Head: "revision", Keep: 4}, {Head: "replicas", Right: true},
		{Head: "autoscaled", Right: true, Keep: 6}, {Head: "CPU requested, each", Right: true, Keep: 5}, {Head: "CPU limit, each", Right: true, Keep: 7}, {Head: "memory requested, each", Right: true, Keep: 1}, {Head: "memory limit, each", Right: true, Keep: 2}}}
	for _, d := range m.Deployments {
		scaled := Dash
		if b := d.Autoscaled; b != nil {
			scaled = Text{S: fmt.Sprintf("%s–%s", Count(b.Least), Count(b.Most))}
			if d.Full() {
				scaled = Text{S: scaled.S + ", at its most", Style: StyleBad}
			}
		}
		t.Rows = append(t.Rows, []Text{{S: string(d.Kind)}, {S: d.Namespace + "/" + d.Name}, {S: d.Version}, {S: d.Revision}, {S: Count(d.Replicas)}, scaled,
			some(d.Requests.Cores, cores), some(d.Limits.Cores, cores), some(d.Requests.Bytes, amount), some(d.Limits.Bytes, amount)})
	}
	return withoutEmpty(t)
}

func skewsTable(m assess.Mesh) Table {
	t := Table{Title: "Proxies of another minor version than their istiod", Columns: []Column{{Head: "what"}, {Head: "count", Right: true}, {Head: "version"}, {Head: "istiod"}, {Head: "revision", Keep: 1}, {Head: "behind", Right: true}}}
	for _, s := range m.Skews {
		behind := Text{S: words.Plural(s.Minors, "minor version")}
		if s.Minors < 0 {
			behind = Text{S: words.Plural(-s.Minors, "minor version") + " ahead", Style: StyleBad}
		}
		t.Rows = append(t.Rows, []Text{{S: string(s.Kind)}, {S: Count(s.Count)}, {S: s.Version}, {S: s.Istiod}, {S: s.Revision}, behind})
	}
	return withoutEmpty(t)
}

func problemsTable(m assess.Mesh) Table {
	t := Table{Title: "Known problems of these versions", Columns: []Column{{Head: "of"}, {Head: "problem"}, {Head: "fixed in"}, {Head: "source", Keep: 1}},
		Notes: []string{"As announced by Istio until " + assess.ProblemsAsOf + ", of those that touch performance. Whether they show in this mesh is not measured."}}
	for _, p := range m.Problems {
		fixed := Text{S: p.Fixed}
		if p.Fixed == "" {
			fixed = Text{S: "newer minor versions"}
		}
		says := p.Says.String()
		if p.Takes != nil {
			says += fmt.Sprintf(". Only with %s: whether this mesh has them is unknown", p.Takes)
		}
		t.Rows = append(t.Rows, []Text{{S: fmt.Sprintf("%s %s", kindWords(p.Kind, p.Count), p.Version)}, {S: says}, fixed, {S: p.Source}})
	}
	return t
}

func objectsTable(m assess.Mesh) Table {
	t := Table{Title: "Objects", Columns: []Column{{Head: "kind"}, {Head: "count", Right: true}}}
	for _, kind := range slices.Sorted(maps.Keys(m.Objects)) {
		if n := m.Objects[kind]; n > 0 {
			t.Rows = append(t.Rows, []Text{{S: kind}, {S: Count(n)}})
		}
	}
	return t
}

func settingsTable(m assess.Mesh) Table {
	t := Table{Title: "Settings that differ from Istio's defaults", Columns: []Column{{Head: "setting"}, {Head: "default"}, {Head: "level"}}}
	for _, s := range m.Settings {
		t.Rows = append(t.Rows, []Text{{S: FactorName(s.Name)}, {S: cmp.Or(s.Default, Dash.S)}, {S: s.Level}})
	}
	return t
}

func perSecond(v float64) string { return Fixed(v, 1) + "/s" }

func trafficTable(t assess.Traffic) Table {
	by, rest := "by their own counters", ", the rest by their own counters"
	if t.Metered+t.Logged == t.Read {
		rest = ""
	}
	switch {
	case t.Metered == t.Read && t.Metered > 0:
		by = "by Prometheus"
	case t.Logged == t.Read && t.Logged > 0:
		by = "by their access logs"
	case t.Metered > 0 && t.Logged > 0:
		by = fmt.Sprintf("%s of them by Prometheus, %s by their access logs%s", Count(t.Metered), Count(t.Logged), rest)
	case t.Metered > 0:
		by = fmt.Sprintf("%s of them by Prometheus%s", Count(t.Metered), rest)
	case t.Logged > 0:
		by = fmt.Sprintf("%s of them by their access logs%s", Count(t.Logged), rest)
	}
	out := Table{Title: fmt.Sprintf("Through %s of %s, %s, over %s", Count(t.Read), words.Plural(t.Sidecars, "sidecar"), by, ScaleFor("s", t.WindowS).Value(t.WindowS)),
		Columns: []Column{{Head: "what"}, {Head: "rate", Right: true}}}
	if t.Read == 0 {
		out.Title = "By Prometheus"
	} else {
		out.Rows = [][]Text{{{S: "requests that left their pods"}, {S: perSecond(t.Called)}}, {{S: "requests that entered their pods"}, {S: perSecond(t.Served)}},
			{{S: "TCP connections opened"}, {S: perSecond(t.Connections)}}}
	}
	if t.Routed != nil {
		out.Rows = append(out.Rows, []Text{{S: "of the requests that left, those that need L7"}, {S: Fixed(100**t.Routed, 1) + "%"}})
	}
	for _, x := range t.Through {
		of := kindWords(x.Kind, x.Count)
		if x.Read < x.Count {
			of = Count(x.Read) + " of " + of
		}
		out.Rows = append(out.Rows, []Text{{S: "requests through " + of}, {S: perSecond(x.PerS)}})
	}
	if t.Carrying != nil {
		out.Rows = append(out.Rows, []Text{{S: "connections that carry the requests of a pod, mean"}, {S: Fixed(*t.Carrying, 1)}})
	}
	if t.Open != nil {
		out.Rows = append(out.Rows, []Text{{S: "TCP connections open"}, {S: Fixed(*t.Open, 0)}})
	}
	if z := t.Sizes; z != nil {
		out.Rows = append(out.Rows, []Text{{S: "size of a request, mean"}, {S: amount(z.Request)}}, []Text{{S: "size of an answer, mean"}, {S: amount(z.Response)}})
	}
	return out
}

func protocolsTable(t assess.Traffic) Table {
	out := Table{Title: "Requests by protocol, by Prometheus", Columns: []Column{{Head: "protocol"}, {Head: "requests", Right: true}}}
	for _, name := range slices.Sorted(maps.Keys(t.Protocols)) {
		out.Rows = append(out.Rows, []Text{{S: name}, {S: perSecond(t.Protocols[name])}})
	}
	return out
}

// shownRows bounds long tables.
const shownRows = 20

func callsTable(t assess.Traffic) Table {
	out := Table{Title: "Who calls whom", Columns: []Column{{Head: "from"}, {Head: "to"}, {Head: "requests", Right: true}, {Head: "connections", Right: true}, {Head: "needs L7", Keep: 1}}}
	for _, c := range t.Calls {
		row := []Text{{S: c.From.String()}, {S: c.Host}, {S: perSecond(c.PerS)}, Dash, {}}
		if c.TCP {
			row[2], row[3] = row[3], row[2]
		}
		if c.Routed {
			row[4] = Text{S: "yes"}
		}
		out.Rows = append(out.Rows, row)
	}
	return cutRows(withoutEmpty(out), shownRows)
}

// hostsTable has the hosts of which something decides by what is in requests.
func hostsTable(t assess.Traffic) Table {
	out := Table{Title: "Hosts whose requests need L7", Columns: []Column{{Head: "host"}, {Head: "requests", Right: true}, {Head: "callers", Right: true, Keep: 1}, {Head: "because of"}},
		Notes: []string{"Routes, balancing of requests and policies by what is in them: with ambient these take a waypoint, and an EnvoyFilter has to be replaced."}}
	for _, h := range t.Hosts {
		if len(h.Needs) > 0 && !h.TCP {
			out.Rows = append(out.Rows, []Text{{S: h.Name}, {S: perSecond(h.PerS)}, {S: Count(h.Callers)}, {S: few(h.Needs)}})
		}
	}
	return cutRows(out, shownRows)
}

func usesTable(c assess.Cost) Table {
	t := Table{Title: "CPU and memory, measured by " + measurers(c), Columns: []Column{{Head: "what"}, {Head: "CPU", Right: true}, {Head: "of requested", Right: true, Keep: 4},
		{Head: "of limit", Right: true, Keep: 2}, {Head: "memory", Right: true}, {Head: "of requested", Right: true, Keep: 3}, {Head: "of limit", Right: true, Keep: 1}}}
	share := func(used, of float64) Text {
		if of == 0 {
			return Dash
		}
		return Text{S: Percent(used / of)}
	}
	t.Notes = append(t.Notes, "Memory is the working set, without files that the kernel could drop. Shares are of those that request a resource, or are limited in it.")
	priced := c.Prices.Stated()
	if priced {
		t.Columns = append(t.Columns, Column{Head: "used, " + c.Prices.Currency + " a month", Right: true}, Column{Head: "requested, " + c.Prices.Currency + " a month", Right: true})
		t.Notes = append(t.Notes, fmt.Sprintf("At %s %s for a core and %s for a GB of memory, a month.", Fixed(c.Prices.Core, 2), c.Prices.Currency, Fixed(c.Prices.GB, 2)))
	}
	for _, u := range c.Uses {
		if u.Measured == 0 {
			continue
		}
		row := []Text{{S: ofAll(u)}, {S: cores(u.Used.Cores)}, share(u.OfRequests.Cores, u.Requests.Cores), share(u.OfLimits.Cores, u.Limits.Cores),
			{S: amount(u.Used.Bytes)}, share(u.OfRequests.Bytes, u.Requests.Bytes), share(u.OfLimits.Bytes, u.Limits.Bytes)}
		if priced {
			row = append(row, Text{S: Fixed(u.Month, 0)}, some(u.Reserved, whole))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// measurers says who measured what proxies use.
func measurers(c assess.Cost) string {
	measured, metered := 0, 0
	for _, u := range c.Uses {
		measured, metered = measured+u.Measured, metered+u.Metered
	}
	switch metered {
	case 0:
		return "the kubelets"
	case measured:
		return "Prometheus"
	}
	return fmt.Sprintf("the kubelets, %s of %s by Prometheus", Count(metered), Count(measured))
}

func eachTable(c assess.Cost) Table {
	t := Table{Title: "What a sidecar uses (95% interval)", Columns: []Column{{Head: "what"}, {Head: "CPU", Right: true}}}
	add := func(what string, v *money.Value, times float64) {
		if v == nil {
			return
		}
		low, high := v.Low*times, v.High*times
		s := ScaleFor("cores", max(high, -low))
		t.Rows = append(t.Rows, []Text{{S: what}, {S: s.Quantity(v.Estimate*times, low, high)}})
	}
	add("without requests", c.Idle, 1)
	add("more for each 1,000 requests per second that pass it", c.Each, 1000)
	if c.Each != nil {
		t.Notes = append(t.Notes, fmt.Sprintf("By a straight line through %s of this mesh. They differ in more than their requests: a study that sets the rate tells more.", words.Plural(c.Fitted, "sidecar")))
	}
	return t
}

func workloadsTable(c assess.Cost) Table {
	t := Table{Title: "Workloads by what their sidecars use", Columns: []Column{{Head: "workload"}, {Head: "sidecars", Right: true}, {Head: "CPU", Right: true},
		{Head: "CPU requested", Right: true, Keep: 2}, {Head: "memory", Right: true}, {Head: "memory requested", Right: true, Keep: 1}, {Head: "requests", Right: true, Keep: 3}}}
	for _, w := range c.Workloads {
		row := []Text{{S: w.Namespace + "/" + w.Workload}, {S: Count(w.Measured)}, {S: cores(w.Used.Cores)}, some(w.Requests.Cores, cores), {S: amount(w.Used.Bytes)}, some(w.Requests.Bytes, amount), Dash}
		if w.PerS != nil {
			row[6] = Text{S: perSecond(*w.PerS)}
		}
		t.Rows = append(t.Rows, row)
	}
	return withoutEmpty(t)
}

// fitWords say how requests and limits suit.
var fitWords = map[assess.Fit]Text{assess.FitNearLimit: {"near its limit", StyleBad}, assess.FitUnder: {"more than requested", StyleBad}, assess.FitOver: {S: "requests too much"}}

func misfitsTable(c assess.Cost) Table {
	t := Table{Title: "Sidecars whose requests or limits do not fit", Columns: []Column{{Head: "workload"}, {Head: "sidecars", Right: true, Keep: 1}, {Head: "of"}, {Head: "used", Right: true}, {Head: "requested", Right: true}, {Head: "limit", Right: true}, {Head: "verdict"}},
		Notes: []string{"By this reading alone: requests and limits have to suit the busiest hour. More than 80% of a limit, more than is requested, or less than a quarter of it."}}
	for _, m := range c.Misfits {
		value, of := cores, "CPU"
		if m.Of == assess.OfMemory {
			value, of = amount, "memory"
		}
		t.Rows = append(t.Rows, []Text{{S: m.Namespace + "/" + m.Workload}, {S: Count(m.Sidecars)}, {S: of}, {S: value(m.Used)}, some(m.Requested, value), some(m.Limit, value), fitWords[m.Fit]})
	}
	return withoutEmpty(t)
}

// withLacking says which proxies of a run lack something, "" for none.
func withLacking(l assess.Latency) string {
	if len(l.Lacking) == 0 {
		return ""
	}
	return " with " + componentWords(l.Lacking)
}

// latencyTable has what proxies add, as runs measured it.
func latencyTable(c assess.Cost) Table {
	t := Table{Title: "What proxies add to latency (95% interval)", Columns: []Column{{Head: "requests carried by"}, {Head: "at"}, {Head: "median", Right: true}, {Head: "p99", Right: true}}}
	for _, l := range c.Latency {
		at := short(l.Rate) + "/s"
		for _, factor := range slices.Sorted(maps.Keys(l.Cell)) {
			if factor != "sidecars" && factor != "rate" {
				at += ", " + FactorName(factor) + " " + l.Cell[factor]
			}
		}
		t.Rows = append(t.Rows, []Text{{S: carriedBy(l.Cell["sidecars"])}, {S: at}, addedLatency(l.P50), addedLatency(l.P99)})
		from := fmt.Sprintf("Run %s on %s: not of this mesh, whose machines, filters and payloads differ.", l.Run, l.Machine)
		if len(l.Lacking) > 0 {
			from += " It was measured" + withLacking(l) + "."
		}
		if l.Shipped {
			from += " It ships with the program."
		}
		if !slices.Contains(t.Notes, from) {
			t.Notes = append(t.Notes, from)
		}
	}
	return t
}

// carriedBy names who carries requests.
func carriedBy(level string) string {
	switch level {
	case "both":
		return "sidecars"
	case "waypoint":
		return "ambient with a waypoint"
	}
	return level
}

func addedLatency(p *record.Priced) Text {
	if p == nil {
		return Dash
	}
	s := ScaleFor(p.Unit, max(p.High, -p.Low))
	return Text{S: s.Quantity(p.Estimate, p.Low, p.High)}
}

func adviceTable(r *advice.Report) Table {
	if r == nil {
		return Table{}
	}
	t := Table{Title: "Advice", Columns: []Column{{Head: "what"}, {Head: "confidence"}, {Head: "finding"}, {Head: "evidence", Keep: 1}, {Head: "expect", Keep: 2}}}
	for _, j := range r.Advice {
		row := []Text{{j.Title, StyleBad}, {S: j.Sure()}, {S: j.Says}, {S: j.Seen()}, {}}
		if j.Expect != nil {
			row[4] = Text{S: j.Expect.Text()}
		}
		t.Rows = append(t.Rows, row)
		for _, s := range j.Try {
			text := s.Do
			if s.YAML != "" {
				text += "\n" + s.YAML
			}
			t.Texts = append(t.Texts, Listing{j.Rule + ", to try", text})
		}
	}
	if len(t.Rows) == 0 {
		t.Rows = append(t.Rows, []Text{{"nothing", StyleGood}, Dash, {S: "no rule holds"}, {}, {}})
	}
	t.Notes = append(t.Notes, fmt.Sprintf("%s: %s hold, %s ruled out, %s undecided.", words.Plural(len(r.Advice)+len(r.RuledOut)+len(r.Undecided), "rule"),
		Count(len(r.Advice)), Count(len(r.RuledOut)), Count(len(r.Undecided))))
	return t
}

// signalsTables have latencies by quantile, the other signals, and the alerts.
func signalsTables(r *signals.Reading) []Table {
	if r == nil {
		return nil
	}
	latency := Table{Title: "Latency", Columns: []Column{{Head: "of"}, {Head: "mean", Right: true}}}
	for _, q := range record.Percentiles() {
		latency.Columns = append(latency.Columns, Column{Head: q.Head(), Right: true})
	}
	var empty []string
	for _, l := range signals.Latencies() {
		row := []Text{{S: l[1]}}
		mean, _ := r.Find(l[0] + "_mean")
		switch mean.Status {
		case signals.StatusMissing:
			continue
		case signals.StatusNoData:
			empty = append(empty, l[1])
			continue
		}
		row = append(row, Text{S: mean.Describe()})
		for _, q := range record.Percentiles() {
			v, _ := r.Find(l[0] + "_" + q.Name())
			row = append(row, Text{S: v.Describe()})
		}
		latency.Rows = append(latency.Rows, row)
	}
	others := Table{Title: "Saturation, traffic and errors", Columns: []Column{{Head: "signal"}, {Head: "value"}}}
	for _, v := range r.Signals {
		if v.Group == signals.GroupLatency || v.Status != signals.StatusOK {
			continue
		}
		style := StyleNone
		if v.Saturated {
			style = StyleBad
		}
		others.Rows = append(others.Rows, []Text{{S: v.Title}, {v.Describe(), style}})
	}
	of := &latency
	if len(latency.Rows) == 0 {
		of = &others
	}
	if missing := missingMetrics(r.Missing); len(missing) > 0 {
		of.Notes = append(of.Notes, "Missing: "+strings.Join(missing, ", ")+". istiod shows most metrics only after their first count.")
	}
	if len(empty) > 0 {
		of.Notes = append(of.Notes, "Nothing was counted in this time of: "+strings.Join(empty, "; ")+".")
	}
	alerts := Table{Title: "Alerts", Columns: []Column{{Head: "alert"}, {Head: "severity"}, {Head: "state"}}}
	for _, a := range r.Alerts {
		style := StyleNone
		if len(a.Fired) > 0 {
			style = StyleBad
		}
		alerts.Rows = append(alerts.Rows, []Text{{S: a.Name}, {S: a.Severity}, {a.Describe(r.AtMS), style}})
	}
	return []Table{latency, others, alerts}
}

// missingMetrics names metrics, a histogram once.
func missingMetrics(names []string) (out []string) {
	for _, name := range names {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		if !slices.Contains(out, name) && name != signals.MetricConvergence { // our own, which only a run records
			out = append(out, name)
		}
	}
	return out
}

// logTable says what istiods log of their pushes.
func logTable(l assess.Log) Table {
	t := Table{Title: fmt.Sprintf("What istiod logged in %s", ScaleFor("s", l.Seconds).Value(l.Seconds)), Columns: []Column{{Head: "what"}, {Head: "count", Right: true}, {Head: "rate", Right: true}}}
	add := func(what string, n int) {
		if n == 0 {
			return
		}
		row := []Text{{S: what}, {S: Count(n)}, Dash}
		if l.Seconds > 0 {
			row[2] = Text{S: Fixed(float64(n)/l.Seconds, 2) + "/s"}
		}
		t.Rows = append(t.Rows, row)
	}
	add("rounds of pushes", l.Rounds)
	for _, r := range l.Reasons {
		add("rounds for "+r.Name, r.N)
	}
	add("updates merged into them", l.Updates)
	for _, p := range l.Pushes {
		add(p.Name+" pushed to a proxy", p.N)
	}
	add("configurations requested by proxies", l.Requested)
	add("proxies that connected", l.Connects)
	if len(l.Reasons) > 0 {
		t.Notes = append(t.Notes, "Of a round for several objects istiod logs one.")
	}
	return cutRows(t, shownRows)
}

func logProblems(l assess.Log) Table {
	t := Table{Title: fmt.Sprintf("Warnings and errors in istiod's log: %s and %s", Count(l.Warnings), Count(l.Errors)), Columns: []Column{{Head: "what"}, {Head: "lines", Right: true}, {Head: "the first", Keep: 1}}}
	for _, p := range l.Problems {
		t.Rows = append(t.Rows, []Text{{p.What.String(), StyleBad}, {S: Count(p.N)}, {S: p.Example}})
	}
	return t
}

func configurationTables(c *assess.Configuration) []Table {
	if c == nil {
		return nil
	}
	out := []Table{scopeOwners(*c.Held), scopeTypes(*c.Held), scopeUncalled(*c.Held)}
	if c.Saving == nil || c.Sidecars == 0 {
		return out
	}
	saving := savingTable(*c.Saving)
	saving.Title = fmt.Sprintf("%s that would fit what the workloads call: predicted for %s", words.Plural(c.Sidecars, "Sidecar"), words.Plural(c.Saving.Proxies, "sidecar"))
	saving.Notes = append(saving.Notes, c.Risk, "They are in sidecars.yaml beside this, and are not applied.")
	return append(out, saving)
}

// modesTables compare sidecars with ambient for the mesh, and by namespace.
func modesTables(a assess.Assessment) (out []Table) {
	for _, m := range a.Modes {
		var tables []Table
		if len(m.Sizing.Ways) > 0 {
			tables = SizingTables(record.Findings{Sizings: []record.Sizing{m.Sizing}, Parts: m.Parts})
		}
		tables = withRows(append(tables, movesTable(m, a.Namespaces))...)
		if last := len(tables) - 1; last >= 0 {
			tables[last].Notes = append(tables[last].Notes, measuredBy(m))
		}
		out = append(out, tables...)
	}
	return append(out, namespacesTable(a.Namespaces))
}

// movesTable compares what each namespace takes if it moves alone.
func movesTable(m assess.Modes, namespaces []assess.Namespace) Table {
	t := Table{Title: "If one namespace moved alone (95% interval)", Columns: []Column{{Head: "namespace"}, {Head: "CPU, sidecars", Right: true}, {Head: "CPU, ambient", Right: true}, {Head: "takes less CPU"},
		{Head: "memory, sidecars", Right: true, Keep: 3}, {Head: "memory, ambient", Right: true, Keep: 4}, {Head: "takes less memory", Keep: 2}, {Head: "CPU by requests/s of each pod", Keep: 1}}}
	for _, z := range m.Namespaces {
		i := slices.IndexFunc(namespaces, func(n assess.Namespace) bool { return n.Name == z.Namespace })
		if i < 0 {
			continue
		}
		stated, _ := namespaces[i].Stated()
		move, found := assess.MoveOf(z, stated.L7 > 0)
		if !found {
			continue
		}
		row := []Text{{S: z.Namespace}, Dash, Dash, {}, Dash, Dash, {}, Dash}
		for _, u := range move.Uses {
			at := 1
			if u.Of == record.SizedMemory {
				at = 4
			}
			s := ScaleFor(u.Now.Unit, max(u.Now.High, u.Then.High))
			row[at], row[at+1], row[at+2] = priced(u.Now, s), priced(u.Then, s), Text{S: cmp.Or(u.Less, "not told apart")}
		}
		if move.Border != nil {
			row[7] = Text{S: move.Border.Says.String()}
		}
		t.Rows = append(t.Rows, row)
	}
	t.Notes = append(t.Notes, "Each as if it alone moved: ztunnels on the nodes that have pods of it, and two waypoints if requests to it need L7. Namespaces that move together share ztunnels.")
	return withoutEmpty(t)
}

// priced formats a figure with its unit.
func priced(p record.Priced, s Scale) Text {
	if p.Verdict == record.VerdictInvalid {
		return Text{S: "not valid", Style: StyleDim}
	}
	return Text{S: s.Quantity(p.Estimate, p.Low, p.High)}
}

// namespacesTable has what sidecars take by namespace, and what its requests need.
func namespacesTable(all []assess.Namespace) Table {
	t := Table{Title: "Namespaces with sidecars", Columns: []Column{{Head: "namespace"}, {Head: "sidecars", Right: true}, {Head: "nodes", Right: true, Keep: 2}, {Head: "CPU", Right: true, Keep: 6}, {Head: "CPU requested", Right: true, Keep: 5}, {Head: "memory", Right: true, Keep: 4},
		{Head: "memory requested", Right: true, Keep: 3}, {Head: "requests out", Right: true}, {Head: "in", Right: true}, {Head: "of these need L7", Right: true}, {Head: "because of", Keep: 1}}}
	for _, n := range all {
		row := []Text{{S: n.Name}, {S: Count(n.Sidecars)}, {S: Count(n.Nodes)}, Dash, some(n.Requests.Cores, cores), Dash, some(n.Requests.Bytes, amount), Dash, Dash, Dash, {S: few(n.Needs)}}
		if n.Used != nil {
			row[3], row[5] = Text{S: cores(n.Used.Cores)}, Text{S: amount(n.Used.Bytes)}
		}
		if n.Called != nil {
			row[7], row[8] = Text{S: perSecond(*n.Called)}, Text{S: perSecond(*n.Served)}
		}
		if n.L7 != nil {
			row[9] = Text{S: Percent(*n.L7)}
		}
		t.Rows = append(t.Rows, row)
	}
	return cutRows(withoutEmpty(t), shownRows)
}

func capacityTables(a assess.Assessment) []Table {
	p := a.Capacity
	if p == nil {
		return nil
	}
	t := predictionTable(p.Prediction)
	t.Title = fmt.Sprintf("Predicted by the capacity model: %s, %s, %s", words.Plural(p.Mesh.Proxies, "proxy"), words.Plural(p.Mesh.Services, "Service"), changesPerSecond(p.Mesh.Rate))
	if p.Extrapolates() {
		t.Notes = append(t.Notes, fmt.Sprintf("Extrapolates, %s times beyond what was measured: %s.", short(p.Times), strings.Join(texts(p.Beyond), "; ")))
	}
	if len(p.Below) > 0 {
		t.Notes = append(t.Notes, "Below what was measured, which makes no interval wider: "+strings.Join(texts(p.Below), "; ")+".")
	}
	if len(p.Assumed) > 0 {
		t.Notes = append(t.Notes, "Assumed, since the model's runs do not tell: "+strings.Join(p.Assumed, ", ")+".")
	}
	t.Notes = append(t.Notes, "Each proxy counts as a simulated sidecar that sees every Service, and changes as those of the model's runs. Real sidecars cost istiod 10 to 34% more CPU.")
	reach := reachTable(p.Prediction)
	for _, r := range p.Runs {
		reach.Notes = append(reach.Notes, fmt.Sprintf("The model is fitted to %s of run %s of study %s on %s, with istiod %s.", words.Plural(r.Trials, "trial"), r.Run, r.Study, r.Machine, cmp.Or(r.Istiod, "of an unknown version")))
	}
	if p.Shipped {
		reach.Notes = append(reach.Notes, "It ships with the program. Other machines have other costs: use --model.")
	}
	for _, n := range p.Notes {
		reach.Notes = append(reach.Notes, "Of the model: "+n.String()+".")
	}
	return []Table{t, reach}
}

// reachTable says how far istiod is from its limits.
func reachTable(p *model.Prediction) Table {
	t := Table{Title: "How far it goes, by the capacity model", Columns: []Column{{Head: "what"}, {Head: "now", Right: true}, {Head: "limit", Right: true}, {Head: "beyond it"}}}
	if l := p.Limits; l != nil {
		limit := func(v float64, text, beyond string) Text {
			if v == 0 {
				return Text{"exceeded" + model.TimesBeyond(p.Times), StyleBad}
			}
			return Text{S: text + beyond}
		}
		t.Rows = append(t.Rows, []Text{{S: "changes per second"}, {S: short(p.Mesh.Rate)}, limit(l.Rate, short(l.Rate), model.TimesBeyond(l.RateBeyond)), {S: l.RateEnd.String()}},
			[]Text{{S: "proxies"}, {S: Count(p.Mesh.Proxies)}, limit(float64(l.Proxies), Count(l.Proxies), model.TimesBeyond(l.ProxiesBeyond)), {S: l.ProxiesEnd.String()}})
		t.Notes = append(t.Notes, fmt.Sprintf("Limits are where p99 of convergence exceeds %s, or the push queue never empties: estimates without intervals.", seconds(l.BoundS)))
	}
	if p.Loss != nil {
		t.Notes = append(t.Notes, "Loss of a replica: "+lossWords(p.Loss))
	}
	if p.Storm != nil {
		t.Notes = append(t.Notes, "If all connections drop at once: "+lossWords(p.Storm))
	}
	return t
}

// figureWords name the figures of two assessments.
var figureWords = map[string]string{assess.FigureCount: "%s", assess.FigureCores: "CPU of all, %s", assess.FigureMemory: "memory of all, %s",
	assess.FigureRequests: "requests that left pods with sidecars", assess.FigureIdle: "CPU of a %s without requests", assess.FigureEach: "more CPU of a %s for each 1,000 requests per second",
	assess.FigureConfig: "configuration of a %s, as JSON, mean", assess.FigureServices: "Services", assess.FigureMonth: "money for what is requested, %s, a month",
	assess.FigureL7: "share of requests that need L7", assess.FigureConvergence: "configuration sent to proxies, p99",
	assess.FigureCoresEach: "CPU of each %s, mean", assess.FigureCoresLoad: "CPU of all, %s, for 1,000 requests per second",
	assess.FigureBytesEach: "memory of each %s, mean"}

// istiodFigures name those whose words differ for istiod, which has proxies to serve instead of requests.
var istiodFigures = map[string]string{assess.FigureCoresEach: "CPU of each replica of istiod, mean", assess.FigureCoresLoad: "CPU of istiod for 1,000 proxies",
	assess.FigureBytesEach: "memory of each replica of istiod, mean", assess.FigureBytesLoad: "memory of istiod for 1,000 proxies"}

// changedWords name what changed besides settings.
var changedWords = map[string]string{assess.ChangedCore: "price of a core, a month", assess.ChangedGB: "price of a GB of memory, a month", assess.ChangedCurrency: "currency of the prices"}

func againstTable(a assess.Assessment) Table {
	x := a.Against
	if x == nil {
		return Table{}
	}
	t := Table{Title: "Since " + x.At.UTC().Format("2006-01-02 15:04 UTC"), Columns: []Column{{Head: "what"}, {Head: "then", Right: true}, {Head: "now", Right: true}, {Head: "change", Right: true}, {Head: "which is"}}}
	same := 0
	for _, c := range x.Figures {
		if c.Old > 0 && math.Abs(c.New/c.Old-1) < changeShown || c.Old == c.New {
			same++
			continue
		}
		what := figureWords[c.Name]
		if words, own := istiodFigures[c.Name]; own && c.Kind == assess.Istiod {
			what = words
		}
		if strings.Contains(what, "%s") {
			what = fmt.Sprintf(what, c.Kind)
		}
		value := ScaleFor(unitless(c.Unit), max(c.Old, c.New)).Value
		switch c.Unit {
		case "":
			value = func(v float64) string { return Fixed(v, 0) }
		case "1/s":
			value = perSecond
		}
		row := []Text{{S: what}, {S: value(c.Old)}, {S: value(c.New)}, Dash, {}}
		if c.Old > 0 {
			row[3] = Text{S: fmt.Sprintf("%+.1f%%", 100*(c.New/c.Old-1))}
			row[3].Style = map[assess.Trend]Style{assess.Worse: StyleBad, assess.Better: StyleGood}[c.Trend]
		}
		if c.Trend != "" {
			row[4] = Text{string(c.Trend), row[3].Style}
		}
		t.Rows = append(t.Rows, row)
	}
	switch {
	case len(t.Rows) == 0:
		t.Rows = append(t.Rows, []Text{{S: "no figure by 1% or more"}, {}, {}, {}, {}})
	case same > 0:
		t.Notes = append(t.Notes, words.Plural(same, "other figure")+" changed by less than 1%.")
	}
	if x.Source != a.Source {
		t.Notes = append(t.Notes, fmt.Sprintf("The earlier assessment is of %s, this one of %s.", x.Source, a.Source))
	}
	for _, change := range []struct {
		words string
		names []string
	}{{"Advice that is new: ", x.Came}, {"Advice that is gone: ", x.Went}, {"Known problems of versions that are new: ", x.ProblemsCame}, {"Known problems that are gone: ", x.ProblemsWent}} {
		if len(change.names) > 0 {
			t.Notes = append(t.Notes, change.words+strings.Join(change.names, ", ")+".")
		}
	}
	for _, v := range x.Changed {
		t.Notes = append(t.Notes, fmt.Sprintf("%s: %s then, %s now.", UpperFirst(cmp.Or(changedWords[v.Name], FactorName(v.Name))), cmp.Or(v.Old, "unknown or the default"), cmp.Or(v.New, "unknown or the default")))
	}
	t.Notes = append(t.Notes, "Totals grow with the mesh and are not judged. CPU is, if it changed for each proxy and for the same load alike.", "Two readings, not a comparison of runs: traffic and machines differ too.")
	return t
}

// changeShown is the relative change from which a figure is listed.
const changeShown = 0.01

func settleTable(studies []assess.Study) Table {
	t := Table{Title: "Studies written for this mesh", Columns: []Column{{Head: "file"}, {Head: "asks"}, {Head: "then", Keep: 1}}}
	for _, s := range studies {
		t.Rows = append(t.Rows, []Text{{S: "studies/" + s.Name + ".yaml"}, {S: s.Asks.String()}, {S: s.After.String()}})
	}
	t.Notes = append(t.Notes, "meshtrial run FILE measures in the lab of this machine; with --lab cluster in a cluster of yours.")
	return t
}

func unknownTable(all []assess.Unknown) Table {
	t := Table{Title: "What is unknown, and how to find out", Columns: []Column{{Head: "section"}, {Head: "unknown"}, {Head: "how to find out"}}}
	told := map[[2]string]int{} // rows by how to find out
	for _, u := range all {
		key := [2]string{u.Section, u.By.String()}
		if row, known := told[key]; known {
			t.Rows[row][1].S += "; " + u.What.String()
			continue
		}
		told[key] = len(t.Rows)
		t.Rows = append(t.Rows, []Text{{S: u.Section}, {S: u.What.String()}, {S: u.By.String()}})
	}
	return t
}
