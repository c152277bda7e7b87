package signals

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// Groups of golden signals, in order.
const (
	GroupLatency    = "latency"
	GroupSaturation = "saturation"
	GroupIn         = "traffic_in"
	GroupOut        = "traffic_out"
	GroupErrors     = "errors"
)

// Units of signals.
const (
	UnitSeconds   = "s"
	UnitRatio     = "ratio"
	UnitPerSecond = "1/s"
	UnitBytes     = "B/s"
	UnitCount     = "count"
)

// SaturatedAt is the share of its CPU limit, or of its machine's cores, from which
// istiod counts as saturated.
const SaturatedAt = 0.9

// Signal is one line of the table of golden signals.
type Signal struct {
	Key   string // unique key of the signal: snake_case
	Group string
	Title string
	Unit  string
	// Metrics lists the names that the expression needs. The signal is missing if
	// one of them is.
	Metrics []string
	Expr    string // PromQL
	// By is the label that distinguishes the expression's values; "" for a single
	// value.
	By string
	// Family is the histogram of which this is a quantile or the mean; "" if none.
	Family string
	// Quantile is the quantile; 0 for anything else.
	Quantile record.Quantile
	// Note says what a reader needs to know about it.
	Note string
}

// Options selects whose metrics are read, and over which period.
type Options struct {
	// Window is the range of rates and quantiles. Default: a minute.
	Window time.Duration
	// Selector is added to every selector of istiod's metrics, such as
	// `cluster="one"`. Default: none, since their names are specific to istiod.
	Selector string
	// Process selects istiod's process among all with process_* and go_* metrics.
	// Default: app="istiod", as in Istio's own dashboards.
	Process string
	// Container selects istiod's container in the kubelet's metrics.
	// Default: container="discovery",pod=~"istiod.*".
	Container string
	// Pod selects istiod's pod in those of the kubelet's metrics that have no
	// container label. Default: pod=~"istiod.*".
	Pod string
}

func (o Options) withDefaults() Options {
	o.Window = cmp.Or(o.Window, time.Minute)
	o.Process = cmp.Or(o.Process, `app="istiod"`)
	o.Container = cmp.Or(o.Container, `container="discovery",pod=~"istiod.*"`)
	o.Pod = cmp.Or(o.Pod, `pod=~"istiod.*"`)
	return o
}

// Expand expands an expression of the table: $w is the window; {$i} selects istiod's metrics, $p its process,
// $c its container and $d its pod; $, is for a selector of istiod's metrics with additional matchers.
func (o Options) Expand(expr string) string {
	o = o.withDefaults()
	join := func(a, b string) string {
		if a != "" && b != "" {
			return a + "," + b
		}
		return a + b
	}
	further := ""
	if o.Selector != "" {
		further = "," + o.Selector
	}
	return strings.NewReplacer("$,", further, "$w", promDuration(o.Window), "{$i}", braces(o.Selector), "$p", join(o.Process, o.Selector),
		"$c", join(o.Container, o.Selector), "$d", join(o.Pod, o.Selector)).Replace(expr)
}

func braces(selector string) string {
	if selector == "" {
		return ""
	}
	return "{" + selector + "}"
}

// promDuration formats a duration for PromQL.
func promDuration(d time.Duration) string {
	if ms := d.Milliseconds(); ms%1000 != 0 {
		return fmt.Sprintf("%dms", ms)
	}
	if s := int64(d / time.Second); s%60 != 0 {
		return fmt.Sprintf("%ds", s)
	}
	return fmt.Sprintf("%dm", int64(d/time.Minute))
}

// MetricLatency is the histogram that the published golden signals and alerts call
// latency.
const MetricLatency = "pilot_proxy_convergence_time"

// Quantile returns a PromQL expression for a quantile of a histogram. A selector is in braces,
// or "".
func Quantile(q float64, metric, selector, window string) string {
	return fmt.Sprintf("histogram_quantile(%g, sum by (le) (rate(%s_bucket%s[%s])))", q, metric, selector, window)
}

// family is a histogram of the table.
type family struct{ metric, key, title, note string }

// families lists the latencies, in the order of a change's stages.
var families = []family{
	{"pilot_debounce_time", "debounce", "debounce, with push context", "waiting for further changes; most of a change's way, and not in pilot_proxy_convergence_time. EDS pushes without debounce do not feed it"},
	{"pilot_pushcontext_init_seconds", "push_context", "push context", "computing what all proxies share"},
	{"pilot_proxy_queue_time", "queue", "queue", "until a proxy's turn came"},
	{"pilot_xds_push_time", "push", "push, one type to one proxy", "generating and sending"},
	{MetricLatency, "convergence_istiod", "convergence, as istiod has it", "from the end of debounce until sent: without the watch, debounce, push context, the wire and the acknowledgement"},
	{MetricConvergence, "convergence_true", "true convergence", "from the commit to the acknowledgement of each proxy; measured by meshtrial's simulated sidecars"},
}

// Histograms lists istiod's own latency histograms, in the order of a change's stages.
func Histograms() []string {
	var out []string
	for _, f := range families {
		if f.metric != MetricConvergence {
			out = append(out, f.metric)
		}
	}
	return out
}

// Latencies returns the key and the title of each latency of the table. Keys of signals begin
// with them, and end with a quantile's name or "mean".
func Latencies() (out [][2]string) {
	for _, f := range families {
		out = append(out, [2]string{f.key, f.title})
	}
	return out
}

// Table returns the golden signals with expanded expressions.
func Table(o Options) []Signal {
	var all []Signal
	for _, f := range families {
		for _, q := range record.Percentiles() {
			all = append(all, Signal{
				Key: f.key + "_" + q.Name(), Group: GroupLatency, Title: f.title + " " + q.Head(),
				Unit: UnitSeconds, Family: f.metric, Quantile: q, Metrics: []string{f.metric + "_bucket"}, Note: f.note,
				Expr: Quantile(float64(q), f.metric, "{$i}", "$w"),
			})
		}
		all = append(all, Signal{
			Key: f.key + "_mean", Group: GroupLatency, Title: f.title + " mean", Unit: UnitSeconds, Family: f.metric,
			Metrics: []string{f.metric + "_sum", f.metric + "_count"}, Note: f.note,
			Expr: fmt.Sprintf("sum(rate(%[1]s_sum{$i}[$w])) / sum(rate(%[1]s_count{$i}[$w]))", f.metric),
		})
	}
	all = append(all, others...)
	for i := range all {
		all[i].Expr = o.Expand(all[i].Expr)
	}
	return all
}

// others lists the signals that are not latencies.
var others = []Signal{
	{Key: "cpu_container", Group: GroupSaturation, Title: "container CPU, of its limit or the machine's cores", Unit: UnitRatio, By: "pod",
		Metrics: []string{"container_cpu_usage_seconds_total", "machine_cpu_cores"},
		Expr: `sum by (instance, pod) (rate(container_cpu_usage_seconds_total{$c}[$w]))` +
			` / on (instance, pod) (max by (instance, pod) (container_spec_cpu_quota{$d} / container_spec_cpu_period{$d})` +
			` or on (instance, pod) (0 * sum by (instance, pod) (container_cpu_usage_seconds_total{$c}) + on (instance) group_left () max by (instance) (machine_cpu_cores)))`,
		Note: "saturated from 90%"},
	{Key: "cpu_process", Group: GroupSaturation, Title: "process CPU, of the cores its Go runtime uses", Unit: UnitRatio, By: "pod",
		Metrics: []string{"process_cpu_seconds_total", "go_sched_gomaxprocs_threads"},
		Expr:    `sum by (pod) (rate(process_cpu_seconds_total{$p}[$w])) / sum by (pod) (go_sched_gomaxprocs_threads{$p})`,
		Note:    "GOMAXPROCS is the CPU limit rounded up, or the machine's cores; saturated from 90%"},
	{Key: "cpu_process_cores", Group: GroupSaturation, Title: "process CPU", Unit: "cores", By: "pod",
		Metrics: []string{"process_cpu_seconds_total"}, Expr: `sum by (pod) (rate(process_cpu_seconds_total{$p}[$w]))`},

	{Key: "inbound_updates", Group: GroupIn, Title: "updates received (pilot_inbound_updates)", Unit: UnitPerSecond, By: "type",
		Metrics: []string{"pilot_inbound_updates"}, Expr: `sum by (type) (rate(pilot_inbound_updates{$i}[$w]))`},
	{Key: "push_triggers", Group: GroupIn, Title: "pushes triggered (pilot_push_triggers)", Unit: UnitPerSecond, By: "type",
		Metrics: []string{"pilot_push_triggers"}, Expr: `sum by (type) (rate(pilot_push_triggers{$i}[$w]))`},
	{Key: "services", Group: GroupIn, Title: "services known (pilot_services)", Unit: UnitCount,
		Metrics: []string{"pilot_services"}, Expr: `max(pilot_services{$i})`},

	{Key: "xds_pushes", Group: GroupOut, Title: "pushes to proxies (pilot_xds_pushes)", Unit: UnitPerSecond, By: "type",
		Metrics: []string{"pilot_xds_pushes"}, Expr: `sum by (type) (rate(pilot_xds_pushes{$i}[$w]))`,
		Note: "one for each proxy and type"},
	{Key: "xds_proxies", Group: GroupOut, Title: "proxies connected (pilot_xds)", Unit: UnitCount,
		Metrics: []string{"pilot_xds"}, Expr: `sum(pilot_xds{$i})`},
	{Key: "config_bytes", Group: GroupOut, Title: "configuration sent (pilot_xds_config_size_bytes)", Unit: UnitBytes, By: "type",
		Metrics: []string{"pilot_xds_config_size_bytes_sum"}, Expr: `sum by (type) (rate(pilot_xds_config_size_bytes_sum{$i}[$w]))`,
		Note: "bodies of resources alone, before encryption"},
	{Key: "network_bytes", Group: GroupOut, Title: "bytes sent by the pod", Unit: UnitBytes, By: "pod",
		Metrics: []string{"container_network_transmit_bytes_total"}, Expr: `sum by (pod) (rate(container_network_transmit_bytes_total{$d}[$w]))`,
		Note: "everything on the wire: proxies, the API server, scrapes"},

	{Key: "rejects", Group: GroupErrors, Title: "configurations rejected by proxies (pilot_total_xds_rejects)", Unit: UnitCount, By: "type",
		Metrics: []string{"pilot_total_xds_rejects"}, Expr: `sum by (type) (pilot_total_xds_rejects{$i})`, Note: sinceStart},
	errorsOf("rejects_cds", "clusters rejected", "pilot_xds_cds_reject"),
	errorsOf("rejects_eds", "endpoints rejected", "pilot_xds_eds_reject"),
	errorsOf("rejects_lds", "listeners rejected", "pilot_xds_lds_reject"),
	errorsOf("rejects_rds", "routes rejected", "pilot_xds_rds_reject"),
	errorsOf("write_timeouts", "writes timed out", "pilot_xds_write_timeout"),
	errorsOf("push_context_errors", "push context errors", "pilot_xds_push_context_errors",
		"newer versions of Istio count pilot_total_xds_internal_errors instead"),
	errorsOf("internal_errors", "errors while making pushes", "pilot_total_xds_internal_errors"),
	{Key: "send_errors", Group: GroupErrors, Title: "pushes not sent (pilot_xds_pushes, type *_senderr)", Unit: UnitPerSecond,
		Metrics: []string{"pilot_xds_pushes"}, Expr: `sum(rate(pilot_xds_pushes{type=~".*_(senderr|builderr)"$,}[$w])) or 0 * sum(rate(pilot_xds_pushes{$i}[$w]))`},
}

// errorsOf returns a counter of errors, with what else there is to say of it.
func errorsOf(key, title, metric string, notes ...string) Signal {
	return Signal{Key: key, Group: GroupErrors, Title: title + " (" + metric + ")", Unit: UnitCount,
		Metrics: []string{metric}, Expr: "sum(" + metric + "{$i})", Note: strings.Join(append([]string{sinceStart}, notes...), "; ")}
}

const sinceStart = "counted since istiod started; istiod shows it only after the first one"

// Check rejects selectors that are invalid in PromQL.
func (o Options) Check() error {
	for _, s := range Table(o) {
		if _, err := newParser().ParseExpr(s.Expr); err != nil {
			return fmt.Errorf("the selector does not fit into %s: %w", s.Expr, err)
		}
	}
	return nil
}
