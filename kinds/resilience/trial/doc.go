// Package trial runs resilience trials: requests through a service graph while faults and changes
// happen.
//
//	graph, cell -> scene (values) -> pods of the trial's own -> levers proved, requests flow
//	    -> timeline (drive/fault/drive with an executor) -> logs of clients, proxies, workers -> ledger.Book
//
// Every trial makes the services of its graph and its clients anew, and takes
// them away again. All clients begin at one instant, the zero of the timeline.
// Meanwhile a census follows pods and endpoints, a scribe the logs of all
// proxies and workers (which are gone when their pods are), and ejected
// endpoints and CPU are sampled. What steps change outside the run's namespace
// is noted in it before they do, so that a later run can revert it if this
// one dies.
package trial
