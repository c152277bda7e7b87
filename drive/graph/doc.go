// Package graph is the service graph of a study: services, how many replicas
// each has, what its workers do with a request, and whom they call for it.
//
//	study file ------------------\
//	isotope file -> [ReadIsotope] -> Graph -> [Graph.Check] -> deployed by runner
//	[Generate] ------------------/         -> [Graph.Flow]   -> rates, latency, capacity as arithmetic expects them
//	                                       -> [Graph.Layout] -> drawn by report
//
// A worker admits a request when one of its places is free, holds it for its
// service time, then makes its calls, in sequence or all at once, and answers;
// the place is taken until then. A call's probability is drawn once for a
// request, for all its times together. The arithmetic is about that model;
// [Flow] says what it leaves out.
//
// Problems name the field they are about ("services.front.calls[0].to"), so
// that whoever read the graph from a file can say where it stands.
package graph
