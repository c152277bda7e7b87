// Package graph describes the service graph of a study: services, their replicas, what their
// workers do with a request, and which services they call for it.
//
//	study file -----\
//	[Generate] -----> Graph -> [Graph.Check] -> deployed by runner
//	                        -> [Graph.Flow]   -> rates, latency, capacity as arithmetic expects them
//	                        -> [Graph.Layout] -> drawn by report
//
// A worker admits a request when it has a free place, holds it for the service time, then makes its
// calls, in sequence or all at once, and answers. The request occupies its place until then. A
// call's probability is drawn once per request, not for each of its repetitions. The arithmetic
// describes this model; see [Flow] for what it leaves out.
//
// Problems name their field ("services.front.calls[0].to"), so that a caller that read the graph
// from a study can point to the line.
package graph
