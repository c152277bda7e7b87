// Package signals defines the golden signals of a control plane (latency, saturation, traffic in
// and out, errors) and reads them from wherever istiod's metrics are stored.
//
// The signals are a table of PromQL expressions with units ([Table]), evaluated by Prometheus's own
// engine. A [Source] evaluates the expressions. It is a live recording, for which a [Scraper]
// repeatedly reads the metrics page of each istiod and appends it to a [Recorder]; or the recorded
// series of a run ([OpenSeries]); or an external Prometheus server ([Remote]). [Read] turns them
// into a [Reading], and [Alerts] evaluates one of them over time.
//
// A metric that the source lacks is reported as missing, and a histogram without observations as
// having no data; neither is ever zero.
//
// The same table can be exported as a Prometheus rule file and a Grafana dashboard ([WriteRules],
// [WriteDashboard]).
package signals
