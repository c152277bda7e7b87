// Package trial runs resilience trials: requests through a service graph while faults and changes
// happen.
//
//	graph, cell -> scene (values) -> pods of the trial's own -> levers proved, requests flow
//	    -> timeline (drive/fault/drive with an executor) -> logs of clients, proxies, workers -> ledger.Book
//
// Every trial creates the services of its graph and its clients anew, and removes them afterwards.
// All clients start at one instant, time zero of the timeline. Meanwhile a census tracks pods and
// endpoints, a scribe collects the logs of all proxies and workers (which are lost with their
// pods), and ejected endpoints and CPU are sampled. Changes that steps make outside the run's
// namespace are recorded in it beforehand, so that a later run can revert them if this one dies.
package trial
