// Package fit makes a [model.Model] of runs of control-plane studies: what a
// trial counted becomes an [Observation], and observations become parameters
// with intervals. It is pure, and the same runs and seed give the same model.
//
//   - istiod's CPU time without what it used idle, and without push contexts, is
//     fitted to the pushes of all types together by non-negative least squares: a
//     part for each push, for each change in it, for each service that the proxy sees,
//     for services whose endpoints are sent whole or whose routes are made anew, and
//     for each change whatever the number of proxies. A calm trial, whose pushes do
//     not overlap, has an equation for each type, by istiod's own timers
//     (pilot_xds_push_time). So has another of which a CPU profile was taken, by
//     the time in each type's generator; else it has one of all types. Everything that
//     istiod does for a push, such as transport and garbage collection, is in it.
//   - What nobody counts, which pushes were whole or made anew, comes from simulating
//     each trial's changes with what was fitted so far, and fitting again.
//   - Errors count relative to what was measured, so that small cells count as
//     much as large ones.
//   - How much of a turn's CPU time lies on its own path ([model.Parallel]) is
//     found by simulating calm trials' changes, until waiting and turn take
//     as long as pilot_proxy_convergence_time says.
//   - Intervals come from trials drawn again within their cells (bootstrap).
//     Residuals come from cells that were left out of the fit.
//
// A parameter that the runs' levels do not tell from others is named, with the
// study that would tell.
package fit
