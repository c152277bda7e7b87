// Package signals knows the golden signals of a control plane (latency,
// saturation, traffic in and out, errors) and reads them from wherever
// istiod's metrics are kept.
//
// The signals are a table of PromQL expressions with units ([Table]),
// evaluated by Prometheus' own engine. A [Source] answers the expressions. It
// is a live recording: [Scraper] reads the metrics page of each istiod again
// and again and appends it to a [Recorder]. Or it is the recorded series of a run ([OpenSeries]), or a
// Prometheus server elsewhere ([Remote]). [Read] makes a [Reading] of them,
// and [Alarm] watches one of them over time.
//
// A metric that the source does not have is reported as missing and a
// histogram without observations as having no data; neither is ever zero.
//
// The same table goes out to others as a Prometheus rule file and a Grafana
// dashboard ([WriteRules], [WriteDashboard]).
package signals
