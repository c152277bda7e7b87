// Package observe reads what a trial cost: the CPU time and memory of
// containers and of the whole machine, and the counters of Envoy, istiod and
// kube-apiserver.
//
// Data passes through it in three ways. On each node the observe role runs a
// [Server] (a pod of a DaemonSet) that finds the cgroups of the targets it is
// asked about, waits for the instants that bound a window, and reads their
// counters there, and their threads just before the first and after the last;
// the runner asks it through a [Client] and turns pairs of samples into costs
// with [Sample.Since], [ThreadsSample.Since] and [MachineSample.Since]. And the
// runner reads each proxy's admin interface through an [EnvoyAdmin]; pairs of
// [ProxyStats] become rises of counters with [ProxyStats.Since], which
// refuses a proxy that restarted in between. Of a control plane it scrapes
// all replicas at once ([ScrapeAll], [Scrape.Since]), takes profiles
// ([FetchProfile]) and follows the log ([IstiodLog]).
//
// Reading is split from parsing: parsers of Envoy's and Prometheus' formats
// take bytes, and those of the kernel's files are in observe/procfs.
package observe
