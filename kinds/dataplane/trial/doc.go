// Package trial runs data-plane trials: requests through sidecars.
//
//	study.Plan -> topology (values) -> deploy (pods) -> trial
//
// All pods of all cells stay up for the whole run and take turns; a cell picks a client pod and a
// server Service. In a trial the generator runs one continuous schedule. The trial polls its
// intervals and the parts' CPU until both are steady, fixes a window of whole intervals ahead of
// time, and stays silent until it has passed. Then it collects the generator's histograms, the
// node's CPU counters at the edges of the window, memory, and the counters of worker and proxies
// over the whole trial, and checks that the cell's mode was really active.
// mode which the cell names was really active.
package trial
