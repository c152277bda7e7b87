// Package observe reads what a trial cost: the CPU time and memory of
// containers and of the whole machine, and the counters of Envoy, istiod and
// kube-apiserver.
//
// Data passes through it in three ways. First, each node runs the observe role,
// a [Server] in a pod of a DaemonSet. It finds the cgroups of the requested
// targets, waits for the instants that bound a window and reads the counters at
// each of them, and the threads just before the first instant and after the
// last. The runner calls it through a [Client] and turns pairs of samples into
// costs with [Sample.Since], [ThreadsSample.Since] and [MachineSample.Since].
// Second, the runner reads each proxy's admin interface through an
// [EnvoyAdmin]. Pairs of [ProxyStats] become increases of counters with
// [ProxyStats.Since], which rejects a proxy that restarted in between. Third,
// the runner scrapes all replicas of a control plane at once ([ScrapeAll],
// [Scrape.Since]), takes profiles ([FetchProfile]) and follows the log
// ([IstiodLog]).
//
// Reading is separate from parsing: parsers of Envoy's and Prometheus's formats
// take bytes, and those of the kernel's files are in observe/procfs.
package observe
