// Package fit makes a [model.Model] of runs of control-plane studies: what a
// trial counted becomes an [Observation], and observations become parameters
// with intervals. It is pure, and the same runs and seed give the same model.
//
//   - istiod's CPU time without what it used idle, and without push contexts, is
//     divided among types of resource as istiod's own timers
//     (pilot_xds_push_time) divide theirs, and fitted to the pushes of each
//     type by non-negative least squares: a part for each push, or each
//     change in it, a part for each service that the proxy sees, and a part for
//     each change whatever the number of proxies. Everything that istiod does
//     for a push, such as transport and garbage collection, is in it.
//   - Errors count relative to what was measured, so that small cells count as
//     much as large ones.
//   - How much of a turn's CPU time lies on its own path ([model.Parallel]) is
//     found by simulating each trial's changes, until waiting and turn take
//     as long as pilot_proxy_convergence_time says.
//   - Intervals come from trials drawn again within their cells (bootstrap).
//     Residuals come from cells that were left out of the fit.
//
// A parameter that the runs' levels do not tell from others is named, with the
// study that would tell.
package fit
